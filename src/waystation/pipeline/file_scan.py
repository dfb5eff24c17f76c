"""Scan of a huge tree, or of a listing of one: Spark lists files and adds them to the queue.

Spark's tasks list the files, skip those that the rules of a producer exclude or that were added
before, and return the rest. Run an interrupted scan again: files that were added are known by path,
size and time of modification, and are skipped.
"""

import os
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from waystation.core.durations import seconds
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.events import Product
from waystation.core.store import faults
from waystation.files import job as files_job
from waystation.files.directory.globs import Globs
from waystation.files.directory.scan import ScannedFile, Skip, Walk, is_directory, root_of
from waystation.files.producer import Priorities, ProducerOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.products.files import FilesSetup
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.sources import jobs
from waystation.pipeline.sources.batch_writer import Receipt, batch_keys
from waystation.pipeline.sources.store import Store, url_option
from waystation.pipeline.storage.sessions import is_connected, prepared

CHUNK = 500
"""Files that are looked up in the store in one call."""
MOST_OPENED = 10_000
"""Most directories that the driver opens to find parts for the tasks."""
KNOWN = "known"
"""The reason to skip a file that was added before."""

SCHEMA = StructType(
    [
        StructField("reason", StringType()),
        StructField("many", LongType()),
        StructField("key", StringType()),
        # A file name need not be text.
        StructField("path", BinaryType()),
        StructField("size", LongType()),
        StructField("mtime_ns", LongType()),
        StructField("priority", StringType()),
    ]
)
"""One row for each file to add, and one for all files skipped for the same reason."""

ScanRow = tuple[str | None, int, str | None, bytes | None, int | None, int | None, str | None]


class Share(NamedTuple):
    """A part of the tree that one task lists."""

    directory: str
    whole: bool
    """Whether its subdirectories belong to it."""


class ScanRules(msgspec.Struct, frozen=True, kw_only=True):
    """The files that are wanted, and the queue that they are added to."""

    url: str
    """URL of the store."""
    setup: FilesSetup = FilesSetup()
    producer: ProducerOptions = ProducerOptions()
    root: str = ""
    """Directory that the paths of a listing must be in; relative paths are resolved there."""


def shares(root: str, *, enough: int) -> list[Share]:
    """Split a tree into at least `enough` parts, if it has that many directories."""
    whole, opened = deque([root]), list[str]()
    while whole and len(whole) < enough and len(opened) < MOST_OPENED:
        directory = whole.popleft()
        opened.append(directory)
        whole.extend(_inside(directory))
    return [*(Share(each, True) for each in whole), *(Share(each, False) for each in opened)]


def in_tree(rules: ScanRules, parts: Iterable[Share]) -> Iterator[ScanRow]:
    """The rows for some parts of a tree."""
    walk = Walk(rules.producer.scan)
    found = (
        each
        for part in parts
        for each in (walk.under if part.whole else walk.directly_in)(part.directory)
    )
    return _new(rules, found)


def in_listing(rules: ScanRules, rows: Iterable[Any]) -> Iterator[ScanRow]:
    """The rows for some files of a listing: path, size and time of modification."""
    return _new(rules, _listed(rules, rows))


def _listed(rules: ScanRules, rows: Iterable[Any]) -> Iterator[ScannedFile | Skip]:
    scan = rules.producer.scan
    include, exclude = Globs(scan.include_globs), Globs(scan.exclude_globs)
    settle_ns, now_ns = round(seconds(scan.settle) * 1e9), time.time_ns()
    for path, size, mtime_ns in rows:
        if not path or size is None or size < 0 or mtime_ns is None:
            yield Skip.UNREADABLE
            continue
        inner = _inner(path, rules.root)
        if inner is None:
            yield Skip.OUTSIDE
        elif inner not in include or inner in exclude:
            yield Skip.EXCLUDED
        elif abs(now_ns - mtime_ns) < settle_ns:
            yield Skip.FRESH
        else:
            yield ScannedFile(f"{rules.root}/{inner}" if rules.root else path, size, mtime_ns)


def _inner(path: str, root: str) -> str | None:
    """A path relative to the root; None when it is outside."""
    if ".." in path.split("/"):
        return None
    if not root:
        return path.lstrip("/")
    if path.startswith(f"{root}/"):
        return path[len(root) + 1 :].lstrip("/") or None
    return None if path.startswith("/") or "://" in path else path


def _new(rules: ScanRules, files: Iterator[ScannedFile | Skip]) -> Iterator[ScanRow]:
    """Rows for files that were never added, and counts of files that are skipped."""
    keys, priorities = FileKeys(rules.setup.layout), Priorities(rules.producer, rules.setup.layout)
    client: Any = Store(rules.url).at(keys.seen)
    remember_ms = rules.setup.options.remember_ms
    skipped = Counter[str]()
    while chunk := list(islice(files, CHUNK)):
        skipped.update(each.value for each in chunk if isinstance(each, Skip))
        found = [each for each in chunk if isinstance(each, ScannedFile)]
        digests = [files_job.digest(*each) for each in found]
        known = scripts.recall.call_sync(client, keys, remember_ms=remember_ms, digests=digests)
        for file, digest, is_known in zip(found, digests, known, strict=True):
            if is_known:
                skipped[KNOWN] += 1
            else:
                path, size, mtime_ns = file
                row = (digest.hex(), os.fsencode(path), size, mtime_ns, priorities.of(path))
                yield (None, 1, *row)
    for reason, many in skipped.items():
        yield reason, many, None, None, None, None, None


def _inside(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if is_directory(entry)]
    except OSError:
        # The task that lists it reports why.
        return []


QUEUE = "files"
TASKS_A_CORE = 4
PARTS_A_TASK = 32
"""Parts of a tree for each task, so that one large part does not delay the rest."""
KEEP_S = 3600
"""Seconds that an unfinished scan is remembered; the queue remembers its files longer."""

_COLUMNS = ("path", "size", "mtime")
_LATEST_S = 10**11
"""Largest instant in seconds; a larger number must have another unit."""


class ScanResult(msgspec.Struct, frozen=True):
    """The result of a scan."""

    found: int
    """Files that are wanted."""
    queued: int
    """Of them, added now."""
    known: int
    """Of them, added before and unchanged since."""
    skipped: dict[str, int]
    """Other files, by the reason to skip them."""
    receipt: Receipt
    """The receipt of the batch that was added."""
    seconds: float


def scan_tree(
    spark: SparkSession, rules: ScanRules, progress: Progress | None = None
) -> ScanResult:
    """Add every new file of a directory to the queue; all executors must see the directory."""
    _require_own_java(spark)
    progress = progress or NoProgress()
    # The tasks may run in another directory.
    scan = msgspec.structs.replace(rules.producer.scan, scan_dir=root_of(rules.producer.scan))
    rules = msgspec.structs.replace(
        rules, producer=msgspec.structs.replace(rules.producer, scan=scan)
    )
    progress.begin("finding directories")
    context = spark.sparkContext
    tasks = TASKS_A_CORE * context.defaultParallelism
    parts = shares(scan.scan_dir, enough=PARTS_A_TASK * tasks)
    # Dealt out in turn, because neighbours in a tree are often alike.
    hands = [hand for nth in range(tasks) if (hand := parts[nth::tasks])]
    rows = context.parallelize(hands, len(hands)).flatMap(partial(in_tree, rules))
    return _add_files(spark, rules, rows, progress)


def scan_listing(
    spark: SparkSession, path: str, rules: ScanRules, progress: Progress | None = None
) -> ScanResult:
    """Add every new file of a listing (path, size, mtime as CSV or Parquet) to the queue."""
    _require_own_java(spark)
    progress = progress or NoProgress()
    progress.begin("reading the listing")
    frame = _read(spark, path)
    rows = frame.rdd.mapPartitions(partial(in_listing, rules))
    return _add_files(spark, rules, rows, progress)


def _require_own_java(spark: SparkSession) -> None:
    if is_connected(spark):
        raise InvalidOption("a scan wants a Spark master, got a session of Spark Connect")


def _add_files(spark: SparkSession, rules: ScanRules, rows: Any, progress: Progress) -> ScanResult:
    began = time.monotonic()
    prefix, batch = FileKeys(rules.setup.layout).prefix, f"scan-{uuid.uuid4()}"
    store = Store(rules.url)
    with faults.translated():
        store.at(prefix).ping()
    # Spark counts only tasks that succeed, so a repeated task is not counted twice.
    seen = Observation("scan")
    many = {reason: _many(F.col("reason") == reason) for reason in (*Skip, KNOWN)}
    named = [column.alias(reason) for reason, column in many.items()]
    files = spark.createDataFrame(rows, SCHEMA, verifySchema=False).observe(
        seen, _many(F.col("reason").isNull()).alias("new"), *named
    )
    progress.begin("adding files")
    options = {
        **url_option(spark, rules.url),
        "product": Product.FILES.value,
        "queue": QUEUE,
        "prefix": prefix,
        "batch": batch,
        "setup": msgspec.json.encode(rules.setup).decode(),
        "keep": str(KEEP_S),
    }
    wanted = files.where(F.col("reason").isNull()).drop("reason", "many")
    with _reported(progress, store, prefix, batch):
        prepared(spark, jobs.Jobs)
        wanted.write.format(jobs.NAME).options(**options).mode("append").save()
    receipt = jobs.receipt(rules.url, QUEUE, batch, product=Product.FILES.value, prefix=prefix)
    return _scanned(seen.get, receipt, time.monotonic() - began)


def _scanned(seen: dict[str, Any], receipt: Receipt | None, seconds: float) -> ScanResult:
    if receipt is None:
        raise InvalidInput("the receipt of the scan is gone from the store")
    found = int(seen["new"]) + int(seen[KNOWN])
    skipped = {reason.value: int(seen[reason]) for reason in Skip if seen[reason]}
    # Files that a repeated task sent before are known the second time.
    return ScanResult(found, receipt.jobs, found - receipt.jobs, skipped, receipt, seconds)


def _many(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col("many"))), F.lit(0))


@contextmanager
def _reported(progress: Progress, store: Store, prefix: str, batch: str) -> Generator[None]:
    """Report how many files were added while the block runs."""
    keys, done = batch_keys(QUEUE, prefix, batch), threading.Event()
    client: Any = store.at(keys.done)

    def report() -> None:
        while not done.wait(0.5):
            progress.reach(client.scard(keys.done))

    reporting = threading.Thread(target=report)
    reporting.start()
    try:
        yield
    finally:
        done.set()
        reporting.join()


def _read(spark: SparkSession, path: str) -> DataFrame:
    if "://" not in path and not os.path.exists(path):
        raise InvalidInput(f"wanted a directory, or a listing as CSV or Parquet, got {path}")
    if path.rstrip("/").endswith(".parquet"):
        rows = spark.read.parquet(path)
        if missing := [name for name in _COLUMNS if name not in rows.columns]:
            raise InvalidInput(
                f"wanted the columns {', '.join(_COLUMNS)} in {path}, "
                f"got {', '.join(rows.columns)} without {', '.join(missing)}"
            )
    else:
        schema = ", ".join(f"{name} string" for name in _COLUMNS)
        rows = spark.read.schema(schema).option("escape", '"').csv(path)
        # The first line may be a header.
        rows = rows.where(~((F.lower("path") == "path") & (F.lower("size") == "size")))
    return rows.select(
        F.col("path").cast("string"),
        F.expr("try_cast(size as bigint)").alias("size"),
        _nanoseconds(rows).alias("mtime_ns"),
    )


def _nanoseconds(rows: DataFrame) -> Column:
    """Time of modification in nanoseconds, from a timestamp, ISO 8601 or seconds since 1970."""
    if isinstance(rows.schema["mtime"].dataType, TimestampType):
        return F.unix_micros("mtime") * 1000
    seconds = F.expr("try_cast(mtime as decimal(20, 9))")
    instant = F.unix_micros(F.expr("try_cast(cast(mtime as string) as timestamp)")) * 1000
    exact = F.when(F.abs(seconds) < _LATEST_S, (seconds * 10**9).cast("bigint"))
    return F.when(seconds.isNotNull(), exact).otherwise(instant)
