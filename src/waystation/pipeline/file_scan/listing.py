"""Files of a tree or of a listing, selected by the rules of a files producer.

This runs in Spark's tasks: list files, skip those that are not wanted or were added before, and
return the rest.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from waystation.core.durations import seconds
from waystation.files import job as jobs
from waystation.files.directory.globs import Globs
from waystation.files.directory.scan import ScannedFile, Skip, Walk, is_directory
from waystation.files.producer import Priorities, ProducerOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.products.files import FilesSetup
from waystation.pipeline.sources.store import Store

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
        digests = [jobs.digest(*each) for each in found]
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
