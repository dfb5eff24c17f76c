"""The files of a tree or of a listing, judged by the rules that a producer goes by.

This is what Spark's tasks do: they look at files, leave out what is not wanted, ask the store which
ones were put in line before, and hand on the rest.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from pyspark.sql.types import LongType, StringType, StructField, StructType

from waystation.files import job as jobs
from waystation.files.directory.globs import Globs
from waystation.files.directory.scan import Found, Skip, Walk, is_directory
from waystation.files.producer import Priorities, ProducerOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.products.files import Setup
from waystation.pipeline.sources.store import Store
from waystation.pipeline.tables import BYTES

CHUNK = 500
"""Files whose past is asked for in one call."""
MOST_OPENED = 10_000
"""Directories that are opened to find enough to share out."""
KNOWN = "known"
"""The reason to leave out what was put in line before."""

SCHEMA = StructType(
    [
        StructField("reason", StringType()),
        StructField("many", LongType()),
        StructField("key", StringType()),
        # A file's name need not be text.
        StructField("path", BYTES),
        StructField("size", LongType()),
        StructField("mtime_ns", LongType()),
        StructField("priority", StringType()),
    ]
)
"""A row for each file that is to be put in line, and one for many that are left out alike."""

Judged = tuple[str | None, int, str | None, bytes | None, int | None, int | None, str | None]


class Share(NamedTuple):
    """A part of the tree that one task can walk."""

    directory: str
    whole: bool
    """Whether the directories in it belong to it."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Which files are wanted, and the line they are put in."""

    url: str
    setup: Setup = Setup()
    producer: ProducerOptions = ProducerOptions()
    root: str = ""
    """What the paths of a listing must lie under; those that are relative lie under it."""

    @property
    def keys(self) -> FileKeys:
        """Where the line keeps everything."""
        return FileKeys(self.setup.layout)


def shares(root: str, *, enough: int) -> list[Share]:
    """Cut a tree into parts, as many as are asked for if it has that many directories."""
    whole, opened = deque([root]), list[str]()
    while whole and len(whole) < enough and len(opened) < MOST_OPENED:
        directory = whole.popleft()
        opened.append(directory)
        whole.extend(_inside(directory))
    return [*(Share(each, True) for each in whole), *(Share(each, False) for each in opened)]


def in_tree(rules: Rules, parts: Iterable[Share]) -> Iterator[Judged]:
    """What there is to put in line in some parts of a tree."""
    walk = Walk(rules.producer.scan)
    found = (
        each
        for part in parts
        for each in (walk.under if part.whole else walk.directly_in)(part.directory)
    )
    return _new(rules, found)


def in_listing(rules: Rules, rows: Iterable[Any]) -> Iterator[Judged]:
    """What there is to put in line in some rows of a listing: path, size and instant."""
    return _new(rules, _listed(rules, rows))


def _listed(rules: Rules, rows: Iterable[Any]) -> Iterator[Found | Skip]:
    scan = rules.producer.scan
    include, exclude = Globs(scan.include_globs), Globs(scan.exclude_globs)
    settle_ns, now_ns = round(scan.settle_s * 1e9), time.time_ns()
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
            yield Found(f"{rules.root}/{inner}" if rules.root else path, size, mtime_ns)


def _inner(path: str, root: str) -> str | None:
    """A path as seen from the root; None when it leads out of it."""
    if ".." in path.split("/"):
        return None
    if not root:
        return path.lstrip("/")
    if path.startswith(f"{root}/"):
        return path[len(root) + 1 :].lstrip("/") or None
    return None if path.startswith("/") or "://" in path else path


def _new(rules: Rules, files: Iterator[Found | Skip]) -> Iterator[Judged]:
    """What is wanted and was never put in line, and how much is left out for which reason."""
    keys, priorities = rules.keys, Priorities(rules.producer, rules.setup.layout)
    client: Any = Store(rules.url).at(keys.seen)
    remember_ms = rules.setup.options.remember_ms
    left_out = Counter[str]()
    while chunk := list(islice(files, CHUNK)):
        left_out.update(each.value for each in chunk if isinstance(each, Skip))
        found = [each for each in chunk if isinstance(each, Found)]
        digests = [jobs.digest(*each) for each in found]
        known = scripts.recall.call_sync(client, keys, remember_ms=remember_ms, digests=digests)
        for file, digest, is_known in zip(found, digests, known, strict=True):
            if is_known:
                left_out[KNOWN] += 1
            else:
                path, size, mtime_ns = file
                row = (digest.hex(), os.fsencode(path), size, mtime_ns, priorities.of(path))
                yield (None, 1, *row)
    for reason, many in left_out.items():
        yield reason, many, None, None, None, None, None


def _inside(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if is_directory(entry)]
    except OSError:
        # Whoever walks it says why.
        return []
