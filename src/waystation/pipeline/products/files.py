"""Files: one stream for all priorities, rows as jobs, and the table `files`."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from waystation.core.clock import SERVER_TIME
from waystation.core.errors import InvalidInput, InvalidOption, Malformed
from waystation.core.events import EventName, Product
from waystation.files import job as jobs
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile
from waystation.files.options import Layout, QueueOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.product_keys import streams_of
from waystation.pipeline.products.facts import (
    PAGE,
    FoldedTable,
    ProductFacts,
    list_elements,
)
from waystation.pipeline.storage.sql import Frame, grouped, select
from waystation.pipeline.tables import DAY, INSTANT, LONG, REAL, TEXT, Column, Layer, Table

SIZE_CLASSES = ((0, "empty"), (2**10, "up to 1 KB"), (2**20, "up to 1 MB"), (2**30, "up to 1 GB"))
LARGEST = "over 1 GB"
LONGEST_TYPE = 16
"""Characters of a file extension; what is longer is none."""

_QUEUE = Column("queue", TEXT, "queue of the product")
_DATE = Column("date", DAY, "day on which they were added, in UTC")

KIND = (
    Column("directory", TEXT, "directory of the files"),
    Column("type", TEXT, "file extension in lower case; '' where there is none"),
    Column("size_class", TEXT, "range of their size"),
)
"""Columns by which files are grouped."""

# The key has the day, so that new rows are merged with those of their own days only.
ADDED_FILES = Table(
    name="added_files",
    layer=Layer.SILVER,
    meaning="one row for each file and day on which it was added: what only the event says that "
    "added it",
    key=("product", "queue", "job_id", "date"),
    partitions=("date",),
    columns=(
        Column("product", TEXT, "product: files"),
        _QUEUE,
        Column("job_id", TEXT, "id of the file"),
        Column("directory", TEXT, "its directory"),
        Column("type", TEXT, "file extension in lower case; '' where there is none"),
        Column("size", LONG, "bytes"),
        Column("date", DAY, "day on which it was added, in UTC"),
    ),
)

FILE_DAYS = Table(
    name="file_days",
    layer=Layer.SILVER,
    meaning="one row for each day, directory, file type, size class and run time of files that "
    "have ended, which `files` is added up from",
    key=("queue", "directory", "type", "size_class", "run_from_ms", "date"),
    partitions=("date",),
    columns=(
        _QUEUE,
        *KIND,
        Column(
            "run_from_ms",
            LONG,
            "least milliseconds of a range of run times, as in the histograms of `hourly`; null "
            "for files that did not run",
        ),
        Column("files", LONG, "files added"),
        Column("completed", LONG, "of them, completed"),
        Column("dead", LONG, "of them, dead letters"),
        Column("endless", LONG, "of them, without an instant at which they ended"),
        Column("bytes", LONG, "size of all of them"),
        Column("first_at", INSTANT, "when the first was added"),
        Column("last_at", INSTANT, "when the last one ended"),
        _DATE,
    ),
)

_SPACES = " \t\n\r\f\v"

_IS_ADDED = (
    f"product = '{Product.FILES.value}' and event = '{EventName.WAITING.value}' "
    "and fields['path'] is not null and job_id <> ''"
)
# The folder is all before the last slash; the type is what follows the last dot of the name.
_SUFFIX = f"lower(regexp_extract(fields['path'], '(?s)[^/]([.][^./{_SPACES}]+)$', 1)) as suffix"
_TOLD = (
    *("product", "queue", "job_id"),
    "regexp_replace(fields['path'], '(?s)/[^/]*$', '') as directory",
    f"case when length(suffix) <= {LONGEST_TYPE + 1} then suffix else '' end as type",
    "coalesce(try_cast(fields['size'] as bigint), 0) as size",
    "to_date(`at`) as `date`",
)
_ADDED_UP = ("min(directory) as directory", "min(type) as type", "min(size) as size")


def size_class(size: str) -> str:
    """SQL: the class of a size."""
    cases = " ".join(f"when {size} <= {most} then '{name}'" for most, name in SIZE_CLASSES)
    return f"case {cases} else '{LARGEST}' end"


def rows_from_events(events: Frame) -> Frame:
    """Events that added a file as rows of `added_files`, one for each event."""
    return select(select(events, "*", _SUFFIX, where=_IS_ADDED), *_TOLD)


def merged(rows: Frame) -> Frame:
    """Rows of `added_files` as one for each file and day."""
    return grouped(rows, ADDED_FILES.key, *_ADDED_UP)


OUTLIER = 10
"""Times the median run time of its group from which on a file is an outlier."""

FILES = Table(
    name="files",
    layer=Layer.GOLD,
    meaning="one row for each directory, file type and size class: counts, run times, progress",
    key=("queue", "directory", "type", "size_class"),
    columns=(
        Column("queue", TEXT, "queue of the product"),
        *KIND,
        Column("files", LONG, "files added"),
        Column("completed", LONG, "of them, completed"),
        Column("dead", LONG, "of them, dead letters"),
        Column("bytes", LONG, "size of all of them"),
        Column("run_p50_ms", REAL, "median run time, in milliseconds, to one in a hundred"),
        Column("run_p95_ms", REAL, "95th percentile of the run time, to one in a hundred"),
        Column(
            "outliers",
            LONG,
            "files that ran more than ten times the median, both to one in a hundred",
        ),
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
        found = ScannedFile(path, size, int(row.get("mtime_ns") or 0))
        priority = row.get("priority") or keys.layout.priorities[-1]
        return entry(keys, found, priority=priority, now_ns=time.time_ns())


def open_files(client: Any, layout: Layout) -> Iterator[str]:
    """Ids of files that are queued, wait for a retry or for a handler, or are held by a worker."""
    keys = FileKeys(layout)
    for queue, scheduled in zip(keys.lanes[::2], keys.lanes[1::2], strict=True):
        yield from map(_id_of, list_elements(client, queue))
        yield from (_id_of(raw) for raw, _ in client.zscan_iter(scheduled, count=1000))
    for worker in client.smembers(keys.workers):
        yield from map(_id_of, list_elements(client, keys.of(worker.decode()).processing))
    yield from map(_id_of, _unmatched(client, keys.unmatched))


def _unmatched(client: Any, key: str) -> Iterator[bytes]:
    after = "0-0"
    while page := client.xrange(key, f"({after}", "+", PAGE):
        yield from (fields[b"job"] for _, fields in page if fields and b"job" in fields)
        after = page[-1][0].decode()


def _id_of(raw: bytes) -> str:
    try:
        return jobs.read(raw).id
    except Malformed:
        return jobs.poison_id(raw)


FACTS = ProductFacts(
    product=Product.FILES,
    streams=streams_of(Product.FILES),
    encoder=FilesEncoder(),
    followed_key=lambda prefix: FileKeys(Layout(prefix=prefix)).history,
    open_ids=lambda client, prefix, _: open_files(client, Layout(prefix=prefix)),
    # The key has the day.
    folded=(FoldedTable(ADDED_FILES, Product.FILES, rows_from_events, merged, continues="false"),),
    tables=(FILE_DAYS, FILES),
)
