"""Files: one stream for all priorities, rows as jobs, and the table `files`."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from waystation.core.errors import InvalidInput, InvalidOption, Malformed
from waystation.core.events import EventName, Line
from waystation.core.line.server_time import SERVER_TIME
from waystation.files import job as jobs
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import Found
from waystation.files.options import Layout, QueueOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.hours import Hours
from waystation.pipeline.products.facts import (
    HistoryFrames,
    ProductFacts,
    ProductTable,
    list_elements,
)
from waystation.pipeline.storage.sql import Frame, query
from waystation.pipeline.stream_names import streams_of
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


def _size_class(size: str) -> str:
    """SQL: the class of a size."""
    cases = " ".join(f"when {size} <= {most} then '{name}'" for most, name in SIZE_CLASSES)
    return f"case {cases} else '{LARGEST}' end"


_SPACES = " \t\n\r\f\v"
LONGEST_TYPE = 16
"""Characters of a file extension; what is longer is none."""

# The folder is all before the last slash; the type is what follows the last dot of the name.
_BY_KIND = f"""
with added as (
    select queue, subject, min(fields['path']) as path,
           min(coalesce(try_cast(fields['size'] as bigint), 0)) as size
    from {{waiting}}
    where fields['path'] is not null
    group by queue, subject
), split as (
    select queue, subject, size,
           regexp_replace(path, '(?s)/[^/]*$', '') as directory,
           lower(regexp_extract(path, '(?s)[^/]([.][^./{_SPACES}]+)$', 1)) as suffix
    from added
), known as (
    select split.queue, directory,
           case when length(suffix) <= {LONGEST_TYPE + 1} then suffix else '' end as type,
           {_size_class("size")} as size_class, size,
           state, run_ms, added_at, ended_at
    from split left join {{items}} as items on split.subject = items.subject
), typical as (
    select queue, directory, type, size_class, percentile(run_ms, 0.5) as run_p50_ms
    from known
    group by queue, directory, type, size_class
), counted as (
    select known.queue, known.directory, known.type, known.size_class,
           count(*) as files,
           count_if(state = '{EventName.COMPLETED.value}') as completed,
           count_if(state = '{EventName.DEAD.value}') as dead,
           sum(size) as bytes,
           max(run_p50_ms) as run_p50_ms,
           percentile(run_ms, 0.95) as run_p95_ms,
           count_if(run_ms > {OUTLIER} * greatest(run_p50_ms, 1)) as outliers,
           min(added_at) as first_at,
           case when count_if(ended_at is null) = 0 then max(ended_at) end as last_at
    from known
    join typical on known.queue = typical.queue and known.directory = typical.directory
                    and known.type = typical.type and known.size_class = typical.size_class
    group by known.queue, known.directory, known.type, known.size_class
), timed as (
    select *, unix_millis(last_at) - unix_millis(first_at) as finish_ms from counted
)
select *, files * 1000e0 / nullif(finish_ms, 0) as throughput from timed
"""


def by_kind(waiting: Frame, items: Frame) -> Frame:
    """One row for each directory, type and size class, from the added files and their items."""
    return query(_BY_KIND, waiting=waiting, items=items)


def _rows(history: HistoryFrames, _: Hours) -> Frame:
    line = Line.FILES.value
    waiting = query(
        f"select * from {{events}} where event = '{EventName.WAITING.value}'",
        events=history.events_of(line),
    )
    items = query(f"select * from {{items}} where line = '{line}'", items=history.items())
    return by_kind(waiting, items)


def open_files(client: Any, layout: Layout) -> Iterator[str]:
    """Ids of files that are queued, wait for a retry, or are held by a worker."""
    keys = FileKeys(layout)
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
    streams=streams_of(Line.FILES),
    encoder=FilesEncoder(),
    open_ids=lambda client, prefix, _: open_files(client, Layout(prefix=prefix)),
    tables=(ProductTable(FILES, _rows),),
)
