"""Every table of the history: what its rows are, its columns, how it is cut, where it lies.

Bronze is what was told, row by row, and never changes. Silver folds it into attempts, items and
workers; gold answers questions. Silver and gold can always be made again from bronze.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TEXT = StringType()
INT = IntegerType()
LONG = LongType()
REAL = DoubleType()
FLAG = BooleanType()
INSTANT = TimestampType()
DAY = DateType()
BYTES = BinaryType()
TEXTS = ArrayType(TEXT)
FIELDS = MapType(TEXT, TEXT)


class Layer(StrEnum):
    """How far a table is from what was told."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: DataType
    meaning: str


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One table: the declaration that its writers, its readers and its reference page share."""

    name: str
    layer: Layer
    meaning: str
    key: tuple[str, ...]
    """The columns that tell one row from another."""
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {column.name for column in self.columns}
        if unknown := sorted({*self.key, *self.partitions} - known):
            raise ValueError(f"the table {self.name} has no column {', '.join(unknown)}")

    @property
    def schema(self) -> StructType:
        """The columns as Spark has them."""
        return StructType([StructField(column.name, column.type) for column in self.columns])

    @property
    def names(self) -> list[str]:
        """The columns' names, in order."""
        return [column.name for column in self.columns]

    def place(self, root: str) -> str:
        """Where the table lies in a history that lies at `root`."""
        return f"{root.rstrip('/')}/{self.layer}/{self.name}"


_WHOSE = (
    Column("line", TEXT, "which line: bullmq, routing, files, waitingroom"),
    Column("queue", TEXT, "which queue of the line"),
)
_ODD = Column("_corrupt", TEXT, "what was odd about it; null when all was well")

EVENTS = Table(
    name="events",
    layer=Layer.BRONZE,
    meaning="one row for each thing that was told, as it was told",
    key=("stream", "entry_id"),
    partitions=("date",),
    columns=(
        *_WHOSE,
        Column("stream", TEXT, "the key of the stream that told it"),
        Column("entry_id", TEXT, "its id in that stream"),
        Column("seq", LONG, "its turn among the entries of one millisecond"),
        Column("told_at", INSTANT, "when it was told, by the store's clock"),
        Column("at", INSTANT, "when it happened"),
        Column("event", TEXT, "what happened"),
        Column("subject", TEXT, "to whom; null when it happened to the queue itself"),
        Column("attempt", INT, "in which attempt, where that is told"),
        Column("worker", TEXT, "by whom, where that is told"),
        Column("fields", FIELDS, "what this kind of event tells besides"),
        Column("version", INT, "the version of the envelope it came in"),
        _ODD,
        Column("date", DAY, "the day it was told, in UTC"),
    ),
)

GAPS = Table(
    name="gaps",
    layer=Layer.BRONZE,
    meaning="one row for each stretch of a stream that was gone before it could be read",
    key=("stream", "after"),
    columns=(
        *_WHOSE,
        Column("stream", TEXT, "the key of the stream"),
        Column("after", TEXT, "the last id before the gap; 0-0 when the stream began with it"),
        Column("before", TEXT, "the first id after the gap"),
        Column("lost", LONG, "entries in between; null when the server does not count them"),
        Column("reason", TEXT, "trimmed, or recreated when the stream began anew"),
        Column("after_at", INSTANT, "the instant of `after`; null when the stream began with it"),
        Column("before_at", INSTANT, "the instant of `before`"),
    ),
)

ATTEMPTS = Table(
    name="attempts",
    layer=Layer.SILVER,
    meaning="one row for each time a worker held something",
    key=("line", "queue", "subject", "attempt", "started_at"),
    partitions=("date",),
    columns=(
        *_WHOSE,
        Column("subject", TEXT, "the job or file"),
        Column("attempt", INT, "1 for the first"),
        Column("worker", TEXT, "who held it, where that is told"),
        Column("ready_at", INSTANT, "when it could have been taken"),
        Column("started_at", INSTANT, "when it was taken"),
        Column("ended_at", INSTANT, "when the worker let go of it; null while it holds on"),
        Column("wait_ms", LONG, "from ready to started"),
        Column("run_ms", LONG, "from started to ended"),
        Column("outcome", TEXT, "completed, retried, failed, stalled, returned or open"),
        Column("error_class", TEXT, "the kind of failure"),
        Column("fingerprint", TEXT, "the same for failures that are one failure"),
        Column("reason", TEXT, "what the failure said"),
        _ODD,
        Column("date", DAY, "the day it was taken, in UTC"),
    ),
)

ITEMS = Table(
    name="items",
    layer=Layer.SILVER,
    meaning="one row for each job or file, from its first event to its last",
    # An id that is free again may be given to another job.
    key=("line", "queue", "subject", "added_at"),
    partitions=("date",),
    columns=(
        *_WHOSE,
        Column("subject", TEXT, "the job or file"),
        Column("name", TEXT, "what kind it is, where that is told"),
        Column("added_at", INSTANT, "when it came to be; null when that was not seen"),
        Column("started_at", INSTANT, "when it was first taken"),
        Column("ended_at", INSTANT, "when it was completed, failed for good or removed"),
        Column("state", TEXT, "the state its last event left it in"),
        Column("attempts", INT, "times it was taken"),
        Column("retries", INT, "attempts that failed and were followed by another"),
        Column("stalls", INT, "times its worker fell silent"),
        Column("wait_ms", LONG, "all its waiting for a worker"),
        Column("run_ms", LONG, "all its time with workers"),
        Column("total_ms", LONG, "from added to ended"),
        Column("reason", TEXT, "what its last failure said"),
        Column("fingerprint", TEXT, "the same for failures that are one failure"),
        Column("duplicates", INT, "times it was completed although it was not put back"),
        Column("last_told_at", INSTANT, "when its last event was told"),
        _ODD,
        Column("date", DAY, "the day it came to be, or was first seen, in UTC"),
    ),
)

WORKERS = Table(
    name="workers",
    layer=Layer.SILVER,
    meaning="one row for each worker and hour",
    key=("line", "queue", "worker", "hour"),
    columns=(
        *_WHOSE,
        Column("worker", TEXT, "who"),
        Column("hour", INSTANT, "the hour it began"),
        Column("attempts", LONG, "taken in that hour"),
        Column("completed", LONG, "of them, ended well"),
        Column("failed", LONG, "of them, ended badly"),
        Column("stalled", LONG, "of them, ended in silence"),
        Column("busy_ms", LONG, "time spent holding them, all together"),
        Column("first_at", INSTANT, "first seen in that hour"),
        Column("last_at", INSTANT, "last seen in that hour"),
    ),
)

HOURLY = Table(
    name="hourly",
    layer=Layer.GOLD,
    meaning="one row for each queue and hour: how much, and how long it took",
    key=("line", "queue", "hour"),
    columns=(
        *_WHOSE,
        Column("hour", INSTANT, "the hour it began"),
        Column("added", LONG, "came to be"),
        Column("started", LONG, "were taken by a worker"),
        Column("completed", LONG, "ended well"),
        Column("failed", LONG, "failed for good"),
        Column("retried", LONG, "attempts that failed and were followed by another"),
        Column("stalled", LONG, "attempts whose worker fell silent"),
        Column("wait_p50_ms", REAL, "half waited no longer"),
        Column("wait_p95_ms", REAL, "19 of 20 waited no longer"),
        Column("wait_p99_ms", REAL, "99 of 100 waited no longer"),
        Column("run_p50_ms", REAL, "half ran no longer"),
        Column("run_p95_ms", REAL, "19 of 20 ran no longer"),
        Column("run_p99_ms", REAL, "99 of 100 ran no longer"),
        Column("throughput", REAL, "ended a second"),
        Column("wait_sketch", BYTES, "the waits as a KLL sketch, which can be merged"),
        Column("run_sketch", BYTES, "the runs as a KLL sketch, which can be merged"),
    ),
)

FAILURES = Table(
    name="failures",
    layer=Layer.GOLD,
    meaning="one row for each of a queue's hundred most frequent kinds of failure, one for others",
    key=("line", "queue", "fingerprint"),
    columns=(
        *_WHOSE,
        Column("fingerprint", TEXT, "the same for failures that are one failure, or `other`"),
        Column("signature", TEXT, "what they say, with what differs left out; null for `other`"),
        Column("error_class", TEXT, "the error's class; null where none is named, and for `other`"),
        Column("first_at", INSTANT, "first seen"),
        Column("last_at", INSTANT, "last seen"),
        Column("attempts", LONG, "attempts that ended in it"),
        Column("subjects", LONG, "jobs or files it hit"),
        Column("per_hour", REAL, "attempts an hour between first and last"),
        Column("examples", TEXTS, "a few of the ids"),
        Column("retried", LONG, "attempts that were followed by another"),
        Column("recovered", LONG, "of the subjects retried, those completed in the end"),
        Column("retry_helps", REAL, "the part of those retried that was completed in the end"),
        Column("kinds", LONG, "kinds of failure in this row: 1, or how many `other` stands for"),
    ),
)

LEDGER = Table(
    name="ledger",
    layer=Layer.GOLD,
    meaning="one row for each queue and hour of arrival: is everything accounted for",
    key=("line", "queue", "hour"),
    columns=(
        *_WHOSE,
        Column("hour", INSTANT, "the hour in which they came to be"),
        Column("acknowledged", LONG, "said to exist"),
        Column("terminal", LONG, "of them, completed or failed for good"),
        Column("removed", LONG, "of them, taken out by somebody before they ended"),
        Column("visible", LONG, "of them, still to be seen in the queue; null if nobody looked"),
        Column("lost", LONG, "of them, neither; null if nobody looked"),
        Column("duplicated", LONG, "of them, completed more than once"),
        Column("gaps", LONG, "events of the queue that were gone before they could be read"),
        Column("lost_ids", TEXTS, "a few of the lost"),
        Column("clean", FLAG, "nothing lost, nothing duplicated, no gap"),
    ),
)

CAPACITY = Table(
    name="capacity",
    layer=Layer.GOLD,
    meaning="one row for each queue and hour: the workers that its arrivals ask for",
    key=("line", "queue", "hour"),
    columns=(
        *_WHOSE,
        Column("hour", INSTANT, "the hour it began"),
        Column("arrivals_per_s", REAL, "attempts that became ready a second, on average"),
        Column("busiest_per_s", REAL, "the same in the busiest minute"),
        Column("service_mean_ms", REAL, "how long an attempt runs, on average"),
        Column("service_p95_ms", REAL, "19 of 20 attempts run no longer"),
        Column("busy_workers", REAL, "workers kept busy by it, on average"),
        Column("seen_workers", LONG, "workers that took something"),
        Column("target_wait_ms", LONG, "the wait that is asked for"),
        Column(
            "workers_needed",
            LONG,
            "work in hand at a time that keeps 19 of 20 waits of such an hour below it",
        ),
    ),
)


QUALITY = Table(
    name="quality",
    layer=Layer.GOLD,
    meaning="one row for each check of the last round: is every table as large as it must be",
    key=("table", "what"),
    columns=(
        Column("table", TEXT, "which table"),
        Column("what", TEXT, "what was counted"),
        Column("wanted", LONG, "the count by another way"),
        Column("found", LONG, "the count in the table, for the hours that were made anew"),
        Column("well", FLAG, "whether the two are equal"),
        Column("checked_at", INSTANT, "when they were counted"),
    ),
)


def every() -> Iterator[Table]:
    """Every table that all lines share, bronze first."""
    yield from _EVERY


_EVERY: Sequence[Table] = (
    EVENTS,
    GAPS,
    ATTEMPTS,
    ITEMS,
    WORKERS,
    HOURLY,
    FAILURES,
    LEDGER,
    CAPACITY,
    QUALITY,
)
