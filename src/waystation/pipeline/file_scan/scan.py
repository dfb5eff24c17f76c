"""A huge tree, or a listing of one, put in line: Spark lists, the line's own bulk door adds.

A scan that was cut short is simply run again: what is in line already is known by its path, size
and instant, and is left out.
"""

import os
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from waystation.core.errors import InvalidInput
from waystation.core.events import Line
from waystation.core.store import faults
from waystation.files.directory.scan import Skip, root_of
from waystation.pipeline.file_scan import listing
from waystation.pipeline.file_scan.listing import KNOWN, SCHEMA, Rules
from waystation.pipeline.run import Silence, Watch
from waystation.pipeline.sources import jobs
from waystation.pipeline.sources.batch_writer import Receipt, batch_keys
from waystation.pipeline.sources.store import Store, url_options

QUEUE = "files"
TASKS_A_CORE = 4
PARTS_A_TASK = 32
"""Parts of a tree for each task: enough that one large part does not make all others wait."""
KEEP_S = 3600
"""Seconds that an unfinished scan is remembered; the line itself remembers its files longer."""

_COLUMNS = ("path", "size", "mtime")
_LATEST_S = 10**11
"""An instant in seconds; more must be some other unit."""


class Scanned(msgspec.Struct, frozen=True):
    """What a scan came to."""

    found: int
    """Files that are wanted."""
    queued: int
    """Of them, put in line now."""
    known: int
    """Of them, put in line before and unchanged since."""
    left_out: dict[str, int]
    """Why other files were not taken, and how many."""
    receipt: Receipt
    seconds: float


def tree(spark: SparkSession, rules: Rules, watch: Watch | None = None) -> Scanned:
    """Put every file of a directory in line that was not before; all executors must see it."""
    watch = watch or Silence()
    # The tasks may run in another directory.
    scan = msgspec.structs.replace(rules.producer.scan, scan_dir=root_of(rules.producer.scan))
    rules = msgspec.structs.replace(
        rules, producer=msgspec.structs.replace(rules.producer, scan=scan)
    )
    watch.begin("looking for directories to share out")
    context = spark.sparkContext
    tasks = TASKS_A_CORE * context.defaultParallelism
    parts = listing.shares(scan.scan_dir, enough=PARTS_A_TASK * tasks)
    # Dealt out like cards: neighbours in a tree are often alike.
    hands = [hand for nth in range(tasks) if (hand := parts[nth::tasks])]
    rows = context.parallelize(hands, len(hands)).flatMap(partial(listing.in_tree, rules))
    return _put_in_line(spark, rules, rows, watch)


def listed(spark: SparkSession, place: str, rules: Rules, watch: Watch | None = None) -> Scanned:
    """Put every file in line that a listing names: path, size and instant, as CSV or Parquet."""
    watch = watch or Silence()
    watch.begin("reading the listing")
    frame = _read(spark, place)
    rows = frame.rdd.mapPartitions(partial(listing.in_listing, rules))
    return _put_in_line(spark, rules, rows, watch)


def _put_in_line(spark: SparkSession, rules: Rules, rows: Any, watch: Watch) -> Scanned:
    began = time.monotonic()
    prefix, batch = rules.keys.prefix, f"scan-{uuid.uuid4()}"
    store = Store(rules.url)
    with faults.translated():
        store.at(prefix).ping()
    # Told by the tasks that count, so a task that is done again is not counted twice.
    seen = Observation("scan")
    many = {reason: _many(F.col("reason") == reason) for reason in (*Skip, KNOWN)}
    named = [column.alias(reason) for reason, column in many.items()]
    files = spark.createDataFrame(rows, SCHEMA, verifySchema=False).observe(
        seen, _many(F.col("reason").isNull()).alias("new"), *named
    )
    watch.begin("putting files in line")
    options = {
        **url_options(spark, rules.url),
        "line": Line.FILES.value,
        "queue": QUEUE,
        "prefix": prefix,
        "batch": batch,
        "setup": msgspec.json.encode(rules.setup).decode(),
        "keep": str(KEEP_S),
    }
    wanted = files.where(F.col("reason").isNull()).drop("reason", "many")
    with _watched(watch, store, prefix, batch):
        wanted.write.format(jobs.NAME).options(**options).mode("append").save()
    receipt = jobs.receipt(rules.url, QUEUE, batch, line=Line.FILES.value, prefix=prefix)
    return _scanned(seen.get, receipt, time.monotonic() - began)


def _scanned(seen: dict[str, Any], receipt: Receipt | None, seconds: float) -> Scanned:
    if receipt is None:
        raise InvalidInput("wanted the receipt of the scan, which is gone from the store")
    found = int(seen["new"]) + int(seen[KNOWN])
    left_out = {reason.value: int(seen[reason]) for reason in Skip if seen[reason]}
    # What a task had sent before it was done again is known the second time.
    return Scanned(found, receipt.jobs, found - receipt.jobs, left_out, receipt, seconds)


def _many(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col("many"))), F.lit(0))


@contextmanager
def _watched(watch: Watch, store: Store, prefix: str, batch: str) -> Generator[None]:
    """Tell how many files are in line while they are put there."""
    keys, done = batch_keys(QUEUE, prefix, batch), threading.Event()
    client: Any = store.at(keys.done)

    def look() -> None:
        while not done.wait(0.5):
            watch.reach(client.scard(keys.done))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        done.set()
        looking.join()


def _read(spark: SparkSession, place: str) -> DataFrame:
    if "://" not in place and not os.path.exists(place):
        raise InvalidInput(f"wanted a directory, or a listing as CSV or Parquet, got {place}")
    if place.rstrip("/").endswith(".parquet"):
        rows = spark.read.parquet(place)
        if missing := [name for name in _COLUMNS if name not in rows.columns]:
            raise InvalidInput(
                f"wanted the columns {', '.join(_COLUMNS)} in {place}, "
                f"got {', '.join(rows.columns)} without {', '.join(missing)}"
            )
    else:
        schema = ", ".join(f"{name} string" for name in _COLUMNS)
        rows = spark.read.schema(schema).option("escape", '"').csv(place)
        # The first line may say what the columns are.
        rows = rows.where(~((F.lower("path") == "path") & (F.lower("size") == "size")))
    return rows.select(
        F.col("path").cast("string"),
        F.expr("try_cast(size as bigint)").alias("size"),
        _nanoseconds(rows).alias("mtime_ns"),
    )


def _nanoseconds(rows: DataFrame) -> Column:
    """An instant of a listing: a timestamp, ISO 8601, or seconds since 1970."""
    if isinstance(rows.schema["mtime"].dataType, TimestampType):
        return F.unix_micros("mtime") * 1000
    seconds = F.expr("try_cast(mtime as decimal(20, 9))")
    instant = F.unix_micros(F.expr("try_cast(cast(mtime as string) as timestamp)")) * 1000
    told = F.when(F.abs(seconds) < _LATEST_S, (seconds * 10**9).cast("bigint"))
    return F.when(seconds.isNotNull(), told).otherwise(instant)
