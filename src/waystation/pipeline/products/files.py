"""Files: one stream for all priorities, rows as jobs, and the table `files`."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.errors import InvalidInput, InvalidOption, Malformed
from waystation.core.events import EventName, Line
from waystation.core.line.server_time import SERVER_TIME
from waystation.files import job as jobs
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import Found
from waystation.files.options import PREFIX, Layout, QueueOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.products.facts import (
    HistoryFrames,
    ProductFacts,
    ProductTable,
    list_elements,
)
from waystation.pipeline.tables import INSTANT, LONG, REAL, TEXT, Column, Layer, Table

SIZE_CLASSES = ((0, "empty"), (2**10, "up to 1 KB"), (2**20, "up to 1 MB"), (2**30, "up to 1 GB"))
LARGEST = "over 1 GB"

OUTLIER = 10
"""Times the median run time of its group from which on a file is an outlier."""

FILES = Table(
    name="files",
    layer=Layer.GOLD,
    meaning="one row for each directory, file type and size class: counts, run times, progress",
    key=("queue", "directory", "type", "size_class"),
    columns=(
        Column("queue", TEXT, "queue of the product"),
        Column("directory", TEXT, "directory of the files"),
        Column("type", TEXT, "file extension in lower case; '' where there is none"),
        Column("size_class", TEXT, "range of their size"),
        Column("files", LONG, "files added"),
        Column("completed", LONG, "of them, completed"),
        Column("dead", LONG, "of them, dead letters"),
        Column("bytes", LONG, "size of all of them"),
        Column("run_p50_ms", REAL, "median run time, in milliseconds"),
        Column("run_p95_ms", REAL, "95th percentile of the run time"),
        Column("outliers", LONG, "files that ran more than ten times the median"),
        Column("first_at", INSTANT, "when the first was added"),
        Column("last_at", INSTANT, "when the last one ended; null while some are open"),
        Column("finish_ms", LONG, "milliseconds from `first_at` to `last_at`"),
        Column("throughput", REAL, "files ended per second between the two"),
    ),
)


class FilesSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Layout and options of a files queue."""

    layout: Layout = Layout()
    options: QueueOptions = QueueOptions()


class FilesEncoder:
    """Encodes a row with a path as a job; a file that was added before is skipped."""

    add = scripts.add
    columns = ("path", "size", "mtime_ns", "priority")
    width = 6

    def __init__(self, setup: FilesSetup | None = None) -> None:
        self._setup = setup

    def with_setup(self, setup: str) -> "FilesEncoder":
        """The encoder for a queue with its own layout and limits."""
        try:
            return FilesEncoder(msgspec.json.decode(setup, type=FilesSetup))
        except msgspec.MsgspecError as error:
            raise InvalidOption(f"setup must be JSON of a files queue, got {setup}: {error}") from (
                error
            )

    def keys(self, queue: str, prefix: str) -> FileKeys:
        """The keys of all priorities; each row's priority chooses the queue."""
        return FileKeys(self._setup.layout if self._setup else Layout(prefix=prefix))

    def leading(self, keys: FileKeys) -> Sequence[str]:
        """The server's time, the limits, and no rate limit: Spark sets the pace."""
        options = self._setup.options if self._setup else QueueOptions()
        kept, remember_ms = str(options.events_max_len), str(options.remember_ms)
        return SERVER_TIME, kept, remember_ms, "0", "1"

    def job(self, keys: FileKeys, row: Mapping[str, Any]) -> Sequence[Any]:
        """Digest, lane, id, JSON, path and size; a path in bytes need not be text."""
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


def by_kind(waiting: DataFrame, items: DataFrame) -> DataFrame:
    """One row for each directory, type and size class, from the added files and their items."""
    group = ("queue", "directory", "type", "size_class")
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
    typical = known.groupBy(*group).agg(F.percentile("run_ms", F.lit(0.5)).alias("run_p50_ms"))
    ended = F.col("ended_at").isNotNull()
    is_outlier = F.col("run_ms") > OUTLIER * F.greatest(F.col("run_p50_ms"), F.lit(1))
    rows = (
        known.join(typical, list(group))
        .groupBy(*group)
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


def _size_class(size: Expression) -> Expression:
    chosen = F.lit(LARGEST)
    for most, name in reversed(SIZE_CLASSES):
        chosen = F.when(size <= most, F.lit(name)).otherwise(chosen)
    return chosen


def _millis(instant: str) -> Expression:
    return F.unix_millis(F.col(instant))


def _rows(history: HistoryFrames) -> DataFrame:
    line = F.col("line") == Line.FILES
    waiting = history.events().where(line & (F.col("event") == EventName.WAITING))
    return by_kind(waiting, history.items().where(line))


def _open_ids(client: Any, prefix: str, _queue: str) -> Iterator[str]:
    """Ids of files that are queued, wait for a retry, or are held by a worker."""
    keys = FileKeys(Layout(prefix=prefix))
    for queue, scheduled in zip(keys.lanes[::2], keys.lanes[1::2], strict=True):
        yield from map(_id_of, list_elements(client, queue))
        yield from (_id_of(raw) for raw, _ in client.zscan_iter(scheduled, count=1000))
    for worker in client.smembers(keys.workers):
        yield from map(_id_of, list_elements(client, keys.of(worker.decode()).processing))


def _id_of(raw: bytes) -> str:
    try:
        return jobs.read(raw).id
    except Malformed:
        return jobs.poison_id(raw)


FACTS = ProductFacts(
    line=Line.FILES,
    prefix=PREFIX,
    stream=lambda prefix, queue: f"{prefix}:events",
    encoder=FilesEncoder(),
    open_ids=_open_ids,
    tables=(ProductTable(FILES, _rows),),
)
