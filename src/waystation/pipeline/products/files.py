"""Files: one stream for all priorities, its own add script, and a table by kind of file."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as F

from waystation.core.errors import InvalidInput, InvalidOption, Malformed
from waystation.core.events import EventName, Line
from waystation.files import job as jobs
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import Found
from waystation.files.options import NAMESPACE, Layout, QueueOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.products.facts import LineAnswer, LineFacts, listed
from waystation.pipeline.tables import INSTANT, LONG, REAL, TEXT, Column, Layer, Table

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from waystation.pipeline.history import History, Hours

SIZE_CLASSES = ((0, "empty"), (2**10, "up to 1 KB"), (2**20, "up to 1 MB"), (2**30, "up to 1 GB"))
LARGEST = "over 1 GB"

OUTLIER = 10
"""A file is one when it took this many times as long as half of its kind."""

FILES = Table(
    name="files",
    layer=Layer.GOLD,
    meaning="one row for each directory, type and size of file: how many, how long, how far",
    key=("queue", "directory", "type", "size_class"),
    columns=(
        Column("queue", TEXT, "which queue of the line"),
        Column("directory", TEXT, "where the files lie"),
        Column("type", TEXT, "their ending in small letters; '' where there is none"),
        Column("size_class", TEXT, "about how large they are"),
        Column("files", LONG, "put in line"),
        Column("completed", LONG, "of them, ended well"),
        Column("dead", LONG, "of them, set aside"),
        Column("bytes", LONG, "of all of them"),
        Column("run_p50_ms", REAL, "half ran no longer"),
        Column("run_p95_ms", REAL, "19 of 20 ran no longer"),
        Column("outliers", LONG, "ran ten times as long as half of them did"),
        Column("first_at", INSTANT, "when the first was put in line"),
        Column("last_at", INSTANT, "when the last one ended; null while some have not"),
        Column("finish_ms", LONG, "from the first to the last; null while some have not ended"),
        Column("throughput", REAL, "ended a second between the two"),
    ),
)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How a line of files is set up."""

    layout: Layout = Layout()
    options: QueueOptions = QueueOptions()


class Entering:
    """A row with a path becomes a job; a file that was put in line before is left out."""

    add = scripts.add
    columns = ("path", "size", "mtime_ns", "priority")
    width = 6

    def __init__(self, setup: Setup | None = None) -> None:
        self._setup = setup

    def set_up(self, setup: str) -> "Entering":
        """The same for a line with its own names and caps."""
        try:
            return Entering(msgspec.json.decode(setup, type=Setup))
        except msgspec.MsgspecError as error:
            raise InvalidOption(f"wanted the setup of a line of files, got {setup}: {error}") from (
                error
            )

    def keys(self, queue: str, prefix: str) -> FileKeys:
        """The keys of the line; the queue is chosen by each row's priority."""
        return FileKeys(self._setup.layout if self._setup else Layout(namespace=prefix))

    def leading(self, keys: FileKeys) -> Sequence[str]:
        """The server's time, the caps, and no rate: Spark decides how fast it goes."""
        options = self._setup.options if self._setup else QueueOptions()
        kept, remember_ms = str(options.events_max_len), str(options.remember_ms)
        return scripts.SERVER_TIME, kept, remember_ms, "0", "1"

    def job(self, keys: FileKeys, row: Mapping[str, Any]) -> Sequence[Any]:
        """Digest, lane, id, JSON, path and size; a path in bytes may be no text."""
        path, size = row.get("path"), row.get("size") or 0
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or not path:
            raise InvalidInput(f"a file needs a path, got {path!r}")
        if not isinstance(size, int) or size < 0:
            raise InvalidInput(f"a file's size must be a number of bytes, got {size!r}")
        found = Found(path, size, int(row.get("mtime_ns") or 0))
        priority = row.get("priority") or keys.layout.priorities[-1]
        return entry(keys, found, priority=priority, now_ns=time.time_ns())


def by_kind(waiting: "DataFrame", items: "DataFrame") -> "DataFrame":
    """Fold files, as they were put in line, and what became of them into one row for each kind."""
    kind = ("queue", "directory", "type", "size_class")
    path = F.col("fields")["path"]
    size = F.coalesce(F.col("fields")["size"].cast("long"), F.lit(0))
    files = waiting.where(path.isNotNull()).select(
        "queue",
        "subject",
        F.regexp_replace(path, r"(?s)/[^/]*$", "").alias("directory"),
        F.lower(F.regexp_extract(path, r"(?s)[^/](\.[^./\s]{1,16})$", 1)).alias("type"),
        _size_class(size).alias("size_class"),
        size.alias("size"),
    )
    known = files.dropDuplicates(["queue", "subject"]).join(
        items.drop("queue", "line"), "subject", "left"
    )
    typical = known.groupBy(*kind).agg(F.percentile("run_ms", F.lit(0.5)).alias("run_p50_ms"))
    ended = F.col("ended_at").isNotNull()
    is_outlier = F.col("run_ms") > OUTLIER * F.greatest(F.col("run_p50_ms"), F.lit(1))
    rows = (
        known.join(typical, list(kind))
        .groupBy(*kind)
        .agg(
            F.count("*").alias("files"),
            F.count(F.when(F.col("state") == EventName.COMPLETED, 1)).alias("completed"),
            F.count(F.when(F.col("state") == EventName.DEAD, 1)).alias("dead"),
            F.sum("size").alias("bytes"),
            F.first("run_p50_ms").alias("run_p50_ms"),
            F.percentile("run_ms", F.lit(0.95)).alias("run_p95_ms"),
            F.count(F.when(is_outlier, 1)).alias("outliers"),
            F.min("added_at").alias("first_at"),
            F.when(F.count(F.when(~ended, 1)) == 0, F.max("ended_at")).alias("last_at"),
        )
        .withColumn("finish_ms", _millis("last_at") - _millis("first_at"))
        .withColumn("throughput", F.try_divide(F.col("files") * 1000.0, F.col("finish_ms")))
    )
    return rows.select(*FILES.names)


def _size_class(size: "Expression") -> "Expression":
    chosen = F.lit(LARGEST)
    for most, name in reversed(SIZE_CLASSES):
        chosen = F.when(size <= most, F.lit(name)).otherwise(chosen)
    return chosen


def _millis(instant: str) -> "Expression":
    return F.unix_millis(F.col(instant))


def _rows(history: "History", hours: "Hours") -> "DataFrame":
    line = F.col("line") == Line.FILES
    waiting = history.events().where(line & (F.col("event") == EventName.WAITING))
    return by_kind(waiting, history.items().where(line))


def _seen(client: Any, prefix: str, _queue: str) -> Iterator[str]:
    """Whatever is in a queue, waits to be tried again, or is held by a worker."""
    keys = FileKeys(Layout(namespace=prefix))
    for queue, scheduled in zip(keys.lanes[::2], keys.lanes[1::2], strict=True):
        yield from map(_id_of, listed(client, queue))
        yield from (_id_of(raw) for raw, _ in client.zscan_iter(scheduled, count=1000))
    for worker in client.smembers(keys.workers):
        yield from map(_id_of, listed(client, keys.of(worker.decode()).processing))


def _id_of(raw: bytes) -> str:
    try:
        return jobs.read(raw).id
    except Malformed:
        return jobs.name_of(raw)


FACTS = LineFacts(
    line=Line.FILES,
    prefix=NAMESPACE,
    stream=lambda prefix, queue: f"{prefix}:events",
    entrance=Entering(),
    seen=_seen,
    answers=(LineAnswer(FILES, _rows),),
)
