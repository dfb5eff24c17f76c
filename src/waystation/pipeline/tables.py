"""Tables of the history: rows, columns, keys and partitions.

Bronze holds the events as they were read and never changes. Silver folds them into attempts, items
and workers; gold aggregates. Silver and gold can always be rebuilt from bronze.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Types as Spark writes them. Questions need the declarations without Spark, whose import takes
# longer than the answer.
TEXT = "string"
INT = "int"
LONG = "bigint"
REAL = "double"
FLAG = "boolean"
INSTANT = "timestamp"
DAY = "date"
BYTES = "binary"
TEXTS = "array<string>"
FIELDS = "map<string,string>"
COUNTS = "map<bigint,bigint>"
BUCKETS = "array<struct<part:string,bucket:bigint,name:string,many:bigint>>"


LAST_MS = 253_402_214_399_999
"""The last instant that tables hold: a day before the end of the year 9999, after which neither
Python nor SQL can count, so that the days around it are known in every time zone."""
VERSION = 10
"""Version of all tables together, noted in every commit; raised when a table or a column is added,
or a column is renamed, retired or given another type."""
RENAMED = {
    "line": "product",
    "subject": "job_id",
    "subjects": "jobs",
    "told_at": "recorded_at",
    "first_told_at": "first_recorded_at",
    "last_told_at": "last_recorded_at",
    "told_from_s": "estimate_from_s",
}
"""Columns by the names that they had up to version 8; `rebuild` takes such a history over."""


class Form(StrEnum):
    """The form in which the data, name and options of a job are kept."""

    PLAIN = "plain"
    ENCRYPTED = "encrypted"
    CHANGED = "changed"


class Layer(StrEnum):
    """The layer of a table."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    meaning: str


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of a table are laid out, for those who look for few of its rows."""

    looked_up: tuple[str, ...] = ()
    """The columns by which single rows are found: they get bloom filters."""
    group_rows: int = 131_072
    """Rows of a row group, which is the least that is read of a file: few where rows are large."""
    dictionary_bytes: int = 2**20
    """Bytes of different values up to which a row group holds each of them once."""


PLAIN = Layout()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one table, which its writers, readers and reference page share."""

    name: str
    layer: Layer
    meaning: str
    key: tuple[str, ...]
    """The columns that identify a row."""
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()
    layout: Layout = PLAIN

    def __post_init__(self) -> None:
        known = {column.name for column in self.columns}
        if unknown := sorted({*self.key, *self.partitions} - known):
            raise ValueError(f"the table {self.name} has no column {', '.join(unknown)}")

    @property
    def schema(self) -> "StructType":
        """The columns as a Spark schema."""
        from pyspark.sql import types as spark

        text, long = spark.StringType(), spark.LongType()
        bucket = spark.StructType().add("part", text).add("bucket", long).add("name", text)
        kinds: dict[str, Any] = {
            TEXT: text,
            INT: spark.IntegerType(),
            LONG: long,
            REAL: spark.DoubleType(),
            FLAG: spark.BooleanType(),
            INSTANT: spark.TimestampType(),
            DAY: spark.DateType(),
            BYTES: spark.BinaryType(),
            TEXTS: spark.ArrayType(text),
            FIELDS: spark.MapType(text, text),
            COUNTS: spark.MapType(long, long),
            BUCKETS: spark.ArrayType(bucket.add("many", long)),
        }
        return spark.StructType(
            [spark.StructField(column.name, kinds[column.type]) for column in self.columns]
        )

    @property
    def names(self) -> list[str]:
        """The columns' names, in order."""
        return [column.name for column in self.columns]

    def path(self, root: str) -> str:
        """The directory of the table in the history at `root`."""
        return f"{root.rstrip('/')}/{self.layer}/{self.name}"


_WHOSE = (
    Column("product", TEXT, "product: bullmq, routing, files or waitingroom"),
    Column("queue", TEXT, "queue of the product"),
)
_ODD = Column("_corrupt", TEXT, "why the row is doubtful; null for a good row")

EVENTS = Table(
    name="events",
    layer=Layer.BRONZE,
    meaning="one row for each entry of an event stream, as it was read",
    key=("stream", "entry_id"),
    partitions=("date",),
    layout=Layout(looked_up=("job_id",)),
    columns=(
        *_WHOSE,
        Column("stream", TEXT, "key of the stream"),
        Column("entry_id", TEXT, "id of the entry in that stream"),
        Column("seq", LONG, "position among the entries of one millisecond"),
        Column("recorded_at", INSTANT, "when the entry was written, by the store's clock"),
        Column("at", INSTANT, "when it happened"),
        Column("event", TEXT, "name of the event"),
        Column("job_id", TEXT, "job, file or visitor; null for an event of the queue itself"),
        Column("attempt", INT, "number of the attempt, where the event has it"),
        Column("worker", TEXT, "name of the worker, where the event has it"),
        Column("fields", FIELDS, "other fields of the event"),
        Column("version", INT, "version of the event envelope"),
        _ODD,
        Column("date", DAY, "day of `recorded_at`, in UTC"),
    ),
)

GAPS = Table(
    name="gaps",
    layer=Layer.BRONZE,
    meaning="one row for each range of a stream that was trimmed before it could be read",
    key=("stream", "after"),
    columns=(
        *_WHOSE,
        Column("stream", TEXT, "key of the stream"),
        Column("after", TEXT, "last id before the gap; 0-0 when the stream begins with it"),
        Column("before", TEXT, "first id after the gap"),
        Column("lost", LONG, "entries in the gap; null when the server does not count them"),
        Column("reason", TEXT, "`trimmed`, or `recreated` when the stream was deleted"),
        Column("after_at", INSTANT, "instant of `after`; null when the stream begins with the gap"),
        Column("before_at", INSTANT, "instant of `before`"),
    ),
)

PAYLOADS = Table(
    name="payloads",
    layer=Layer.BRONZE,
    meaning="one row for each time that a job was read from the queue: when it was added, and when "
    "it ended",
    key=("product", "queue", "job_id", "read_at"),
    partitions=("date",),
    # The data of a job comes twice, and mostly in one row group.
    layout=Layout(looked_up=("job_id",), group_rows=16_384, dictionary_bytes=64 * 2**20),
    columns=(
        *_WHOSE,
        Column("job_id", TEXT, "id of the job"),
        Column("read_at", INSTANT, "when the event was written after which the job was read"),
        Column("added_at", INSTANT, "when it was added; null where the job was gone"),
        Column("ended", FLAG, "whether it was read after its end"),
        Column("name", TEXT, "name of the job"),
        Column("data", TEXT, "data, as JSON, after the rules"),
        Column(
            "form",
            TEXT,
            "form of data, name and options: `plain`; `encrypted` where rules encrypt; `changed` "
            "when a rule has dropped or hashed something",
        ),
        Column("options", TEXT, "options, as JSON"),
        Column("priority", INT, "priority"),
        Column("delay_ms", LONG, "delay that it was added with or last retried with"),
        Column("attempts", INT, "attempts that were made"),
        Column("parent", TEXT, "key of the parent that waits for it"),
        Column("group", TEXT, "group that it belongs to"),
        Column("deduplication", TEXT, "deduplication id"),
        Column("scheduler", TEXT, "id of the scheduler that made it"),
        Column("trace", TEXT, "id of the trace that it belongs to"),
        Column("result", TEXT, "result, as JSON, after the rules"),
        Column("progress", TEXT, "progress that was last reported, as JSON"),
        Column("reason", TEXT, "error message of its last failure"),
        Column("stacktrace", TEXT, "tracebacks of failed attempts, as JSON"),
        Column("logs", TEXTS, "lines that the handler has logged"),
        Column("fields", FIELDS, "values of the declared fields"),
        Column("bytes", LONG, "size of data and result before the rules"),
        Column("left_out", TEXT, "what could not be kept, and why; null when nothing is missing"),
        Column("date", DAY, "day of `read_at`, in UTC"),
    ),
)

FIELD_VALUES = Table(
    name="field_values",
    layer=Layer.BRONZE,
    meaning="one row for each job and declared field, by which jobs are found",
    key=("product", "queue", "job_id", "field"),
    partitions=("date",),
    layout=Layout(looked_up=("value",)),
    columns=(
        *_WHOSE,
        Column("job_id", TEXT, "id of the job"),
        Column("field", TEXT, "name of the field, as `pipeline.payloads.fields` declares it"),
        Column("value", TEXT, "value; what is no text, as JSON"),
        Column("read_at", INSTANT, "as in `payloads`"),
        Column("date", DAY, "day of `read_at`, in UTC"),
    ),
)

DEPLOYS = Table(
    name="deploys",
    layer=Layer.BRONZE,
    meaning="one row for each deploy that `waystation deploy-mark` was called for",
    key=("name", "deployed_at"),
    columns=(
        Column("name", TEXT, "version, or whatever the deploy was called"),
        Column("deployed_at", INSTANT, "when it was deployed"),
        Column("note", TEXT, "what was said about it"),
    ),
)

ATTEMPTS = Table(
    name="attempts",
    layer=Layer.SILVER,
    meaning="one row for each attempt: each time a worker claimed a job or file",
    key=("product", "queue", "job_id", "attempt", "started_at"),
    partitions=("date",),
    columns=(
        *_WHOSE,
        Column("job_id", TEXT, "id of the job or file"),
        Column("attempt", INT, "1 for the first"),
        Column("worker", TEXT, "name of the worker, where the events have it"),
        Column("ready_at", INSTANT, "when it became ready to be claimed"),
        Column("started_at", INSTANT, "when it was claimed"),
        Column("ended_at", INSTANT, "when the attempt ended; null while it runs"),
        Column("wait_ms", LONG, "milliseconds from `ready_at` to `started_at`"),
        Column("run_ms", LONG, "milliseconds from `started_at` to `ended_at`"),
        Column("outcome", TEXT, "completed, retried, failed, stalled, returned or open"),
        Column("error_class", TEXT, "class of the error"),
        Column("fingerprint", TEXT, "the same for failures with the same signature"),
        Column("reason", TEXT, "error message"),
        Column("group", TEXT, "group of the job, such as `acme/ada`; null for one without"),
        Column(
            "cost", REAL, "what it cost, as was last known; null where nobody said, or above 10^11"
        ),
        Column("weight", REAL, "weight of its tenant when it was claimed; null without turns"),
        Column(
            "free_at",
            INSTANT,
            "since when it waited for nothing but its turn; null at a limit of its group",
        ),
        _ODD,
        Column("date", DAY, "day of `started_at`, in UTC"),
    ),
)

ITEMS = Table(
    name="items",
    layer=Layer.SILVER,
    meaning="one row for each job or file, from its first event to its last",
    # An id that is free again may be given to another job.
    key=("product", "queue", "job_id", "added_at"),
    partitions=("date",),
    layout=Layout(looked_up=("job_id",)),
    columns=(
        *_WHOSE,
        Column("job_id", TEXT, "id of the job or file"),
        Column("name", TEXT, "name or type of the job, where the events have it"),
        Column("added_at", INSTANT, "when it was added; null when that event is missing"),
        Column("started_at", INSTANT, "when it was first claimed"),
        Column("ended_at", INSTANT, "when it completed, failed for good or was removed"),
        Column("state", TEXT, "state after its last event"),
        Column("attempts", INT, "times it was claimed"),
        Column("retries", INT, "attempts that failed and were followed by another"),
        Column("stalls", INT, "attempts that stalled"),
        Column("wait_ms", LONG, "milliseconds it was ready and waited, in all attempts"),
        Column("run_ms", LONG, "milliseconds it ran, in all attempts"),
        Column("total_ms", LONG, "milliseconds from `added_at` to `ended_at`"),
        Column("reason", TEXT, "error message of its last failure"),
        Column("fingerprint", TEXT, "the same for failures with the same signature"),
        Column("duplicates", INT, "completions after the first, unless it was put back"),
        Column("last_recorded_at", INSTANT, "`recorded_at` of its last event"),
        Column("group", TEXT, "group that it belongs to, such as `acme/ada`; null without one"),
        Column("cost", REAL, "what its attempts cost, in all; null where nobody said"),
        _ODD,
        Column("date", DAY, "day of `added_at`, or of its first event, in UTC"),
    ),
)

FAILED_ITEMS = Table(
    name="failed_items",
    layer=Layer.SILVER,
    meaning="one row for each job or file that has ended and each kind of failure that it had",
    key=("product", "queue", "job_id", "fingerprint", "first_at"),
    partitions=("date",),
    columns=(
        *_WHOSE,
        Column("job_id", TEXT, "id of the job or file"),
        Column("fingerprint", TEXT, "the same for failures with the same signature"),
        Column("error_class", TEXT, "class of the error, where the message names it"),
        Column("reason", TEXT, "error message of one of these attempts"),
        Column("first_at", INSTANT, "first attempt that failed so"),
        Column("last_at", INSTANT, "last attempt that failed so"),
        Column("failed", LONG, "attempts that failed so"),
        Column("retried", LONG, "of them, followed by another"),
        Column("recovered", FLAG, "whether it was retried and completed in the end"),
        Column("state", TEXT, "as in `items`, like the columns below"),
        Column("attempts", INT, "times it was claimed"),
        Column("duplicates", INT, "completions after the first"),
        Column("last_recorded_at", INSTANT, "`recorded_at` of its last event"),
        Column("date", DAY, "day of `added_at`, or of its first event, in UTC"),
    ),
)

FAILURE_DAYS = Table(
    name="failure_days",
    layer=Layer.SILVER,
    meaning="one row for each day and kind of failure of jobs or files that have ended, which "
    "`failures` is added up from",
    key=("product", "queue", "fingerprint", "day"),
    columns=(
        *_WHOSE,
        Column("fingerprint", TEXT, "the same for failures with the same signature"),
        Column("reason", TEXT, "error message of one of the attempts"),
        Column("error_class", TEXT, "class of the error, where the message names it"),
        Column("first_at", INSTANT, "first attempt that failed so"),
        Column("last_at", INSTANT, "last attempt that failed so"),
        Column("attempts", LONG, "attempts that failed so"),
        Column("jobs", LONG, "jobs or files that failed so"),
        Column("examples", TEXTS, "ids of a few of them"),
        Column("retried", LONG, "attempts that were followed by another"),
        Column("recovered", LONG, "of the jobs retried, those completed in the end"),
        Column("tried", LONG, "jobs that were retried"),
        Column("day", DAY, "day on which they were added, in UTC"),
        Column("counted_from", TEXT, "stands for the files that `failed_items` had for the day"),
    ),
)

WORKERS = Table(
    name="workers",
    layer=Layer.SILVER,
    meaning="one row for each worker and hour",
    key=("product", "queue", "worker", "hour"),
    columns=(
        *_WHOSE,
        Column("worker", TEXT, "name of the worker"),
        Column("hour", INSTANT, "start of the hour"),
        Column("attempts", LONG, "attempts started in the hour"),
        Column("completed", LONG, "of them, completed"),
        Column("failed", LONG, "of them, failed or retried"),
        Column("stalled", LONG, "of them, stalled"),
        Column("busy_ms", LONG, "milliseconds that these attempts ran, in all"),
        Column("first_at", INSTANT, "first event in the hour"),
        Column("last_at", INSTANT, "last event in the hour"),
    ),
)

HOURLY = Table(
    name="hourly",
    layer=Layer.GOLD,
    meaning="one row for each queue and hour: counts, waits and run times",
    key=("product", "queue", "hour"),
    columns=(
        *_WHOSE,
        Column("hour", INSTANT, "start of the hour"),
        Column("added", LONG, "jobs added"),
        Column("started", LONG, "attempts started"),
        Column("completed", LONG, "jobs completed"),
        Column("failed", LONG, "jobs failed for good"),
        Column("retried", LONG, "attempts that failed and were followed by another"),
        Column("stalled", LONG, "attempts that stalled"),
        Column("wait_p50_ms", REAL, "median wait, in milliseconds"),
        Column("wait_p95_ms", REAL, "95th percentile of the wait"),
        Column("wait_p99_ms", REAL, "99th percentile of the wait"),
        Column("run_p50_ms", REAL, "median run time, in milliseconds"),
        Column("run_p95_ms", REAL, "95th percentile of the run time"),
        Column("run_p99_ms", REAL, "99th percentile of the run time"),
        Column("throughput", REAL, "jobs ended per second"),
        Column("wait_histogram", COUNTS, "waits in each bucket, by its least milliseconds"),
        Column("run_histogram", COUNTS, "run times in each bucket, by its least milliseconds"),
    ),
)

FAILURES = Table(
    name="failures",
    layer=Layer.GOLD,
    meaning="one row for each of a queue's hundred most frequent failures, and one for all others",
    key=("product", "queue", "fingerprint"),
    columns=(
        *_WHOSE,
        Column("fingerprint", TEXT, "the same for failures with the same signature, or `other`"),
        Column("signature", TEXT, "error message with ids and numbers masked; null for `other`"),
        Column("error_class", TEXT, "class of the error, where the message names it"),
        Column("first_at", INSTANT, "first attempt that failed so"),
        Column("last_at", INSTANT, "last attempt that failed so"),
        Column("attempts", LONG, "attempts that failed so"),
        Column("jobs", LONG, "jobs or files that failed so, in each of the ways they failed"),
        Column("per_hour", REAL, "attempts per hour between first and last"),
        Column("examples", TEXTS, "ids of a few of them"),
        Column("retried", LONG, "attempts that were followed by another"),
        Column("recovered", LONG, "of the jobs retried, those completed in the end"),
        Column("retry_helps", REAL, "share of the jobs retried that completed in the end"),
        Column("kinds", LONG, "signatures in this row: 1, or the number that `other` stands for"),
    ),
)

SLOTS = Table(
    name="slots",
    layer=Layer.GOLD,
    meaning="one row for each queue and ten seconds of the last day, which forecasts are made from",
    key=("product", "queue", "hour", "slot"),
    columns=(
        *_WHOSE,
        Column("hour", INSTANT, "start of the hour"),
        Column("slot", LONG, "seconds since 1970, divided by ten"),
        Column("came", LONG, "jobs added or put back, less those removed before their end"),
        Column("ended", LONG, "jobs completed or failed for good"),
    ),
)

LEDGER = Table(
    name="ledger",
    layer=Layer.GOLD,
    meaning="one row for each queue and hour of arrival: what became of the jobs added in it",
    key=("product", "queue", "hour"),
    columns=(
        *_WHOSE,
        Column("hour", INSTANT, "start of the hour in which they were added"),
        Column("acknowledged", LONG, "jobs added"),
        Column("terminal", LONG, "of them, completed or failed for good"),
        Column("removed", LONG, "of them, removed before they ended"),
        Column("visible", LONG, "of them, still in the queue; null without a snapshot"),
        Column("lost", LONG, "of them, none of these; null without a snapshot"),
        Column("duplicated", LONG, "of them, completed more than once"),
        Column("gaps", LONG, "events of the queue that were trimmed before they could be read"),
        Column("lost_ids", TEXTS, "ids of a few lost jobs"),
        Column("clean", FLAG, "nothing lost, nothing duplicated, no gap"),
    ),
)

CAPACITY = Table(
    name="capacity",
    layer=Layer.GOLD,
    meaning="one row for each queue and hour: the workers that its arrivals need",
    key=("product", "queue", "hour"),
    columns=(
        *_WHOSE,
        Column("hour", INSTANT, "start of the hour"),
        Column("arrivals_per_s", REAL, "attempts that became ready per second, on average"),
        Column("busiest_per_s", REAL, "the same in the busiest minute"),
        Column("service_mean_ms", REAL, "mean run time of an attempt"),
        Column("service_p95_ms", REAL, "95th percentile of the run time"),
        Column("busy_workers", REAL, "workers kept busy, on average"),
        Column("seen_workers", LONG, "workers that claimed something"),
        Column("target_wait_ms", LONG, "target wait, in milliseconds"),
        Column(
            "workers_needed",
            LONG,
            "concurrency that keeps 95 % of the waits in such an hour below the target",
        ),
    ),
)


QUALITY = Table(
    name="quality",
    layer=Layer.GOLD,
    meaning="one row for each consistency check of the last refresh",
    key=("table", "what"),
    columns=(
        Column("table", TEXT, "name of the table"),
        Column("what", TEXT, "what is counted"),
        Column("wanted", LONG, "expected count, computed from other tables"),
        Column("found", LONG, "count in the table, for the hours that were refreshed"),
        Column("well", FLAG, "true when both are equal"),
        Column("checked_at", INSTANT, "when it was checked"),
    ),
)


def every() -> Iterator[Table]:
    """All tables that the products share, bronze first."""
    yield from _EVERY


_EVERY: Sequence[Table] = (
    EVENTS,
    GAPS,
    PAYLOADS,
    FIELD_VALUES,
    DEPLOYS,
    ATTEMPTS,
    ITEMS,
    FAILED_ITEMS,
    FAILURE_DAYS,
    WORKERS,
    HOURLY,
    SLOTS,
    FAILURES,
    LEDGER,
    CAPACITY,
    QUALITY,
)
