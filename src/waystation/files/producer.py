"""The producer: adds the files of a directory, once each, complete, and within a rate limit."""

import asyncio
import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from waystation.core.durations import Duration, seconds
from waystation.core.errors import InvalidOption
from waystation.core.options import check_fields, checked
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.core.telemetry.traces import Traces
from waystation.files.directory.intake import Entry, burst_of, entry
from waystation.files.directory.scan import (
    Known,
    KnownFiles,
    ScannedFile,
    ScanOptions,
    Skip,
    Walk,
    root_of,
)
from waystation.files.directory.watch import Inotify
from waystation.files.options import Layout
from waystation.files.queue import Queue
from waystation.files.redis.replies import KNOWN, NEW, WAITS

_log = get_logger(__name__)

BATCH = 500
EXTRA_PASSES = 3
"""Further passes of one scan, for files that were still written to."""

_GATHER_S = 0.05


class ProducerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which files are added, with which priority, and how fast."""

    scan: ScanOptions = ScanOptions()
    """What is examined."""
    default_priority: str = "low"
    """The queue of files that are not of high priority."""
    high_priority_exts: tuple[str, ...] = (".pdf", ".docx", ".xlsx", ".zip")
    """Endings of files that go to the queue `high`."""
    rate_limit_per_sec: int = 0
    """For all producers together; 0 means no limit."""
    rescan: Duration = 30.0
    """How often a watched directory is walked as a whole, in case a change was not reported."""

    def __post_init__(self) -> None:
        check_fields(self)
        seconds(self.rescan, "rescan")
        if self.rate_limit_per_sec < 0:
            raise InvalidOption(
                f"rate_limit_per_sec must be at least 0, got {self.rate_limit_per_sec}"
            )


class Priorities:
    """The priorities of files by their endings; the same for a producer and for a bulk load."""

    def __init__(self, options: ProducerOptions, layout: Layout) -> None:
        if options.default_priority not in layout.priorities:
            raise InvalidOption(
                f"default_priority must be one of {', '.join(layout.priorities)}, "
                f"got {options.default_priority!r}"
            )
        self._urgent = frozenset(_ending(ext) for ext in options.high_priority_exts)
        self._first = layout.priorities[0]
        self._default = options.default_priority

    def of(self, path: str) -> str:
        """The priority of a file."""
        is_urgent = os.path.splitext(path)[1].lower() in self._urgent
        return self._first if is_urgent else self._default


class Tally(msgspec.Struct):
    """The counts of a scan."""

    found: int = 0
    """Files seen."""
    enqueued: int = 0
    """Files added to the queue."""
    known: int = 0
    """Added before, and unchanged since."""
    skipped: Counter[Skip] = msgspec.field(default_factory=Counter[Skip])
    """Files left out, by reason."""


@checked
class Producer:
    """Adds the files of one directory to a queue."""

    def __init__(
        self,
        queue: Queue,
        options: ProducerOptions | None = None,
        *,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        on_progress: Callable[[Tally], None] = lambda tally: None,
    ) -> None:
        self._queue = queue
        self._options = options or ProducerOptions()
        self._metrics = metrics
        self._traces = traces or Traces()
        self._on_progress = on_progress
        self._rng = random.Random()
        self._priorities = Priorities(self._options, queue.keys.layout)
        self.tally = Tally()
        self._known = KnownFiles()
        self._mark = f"producer:{secrets.token_hex(8)}"

    async def scan(self) -> Tally:
        """Add every file that was not added before; waits for files that are still written to."""
        walk = Walk(self._options.scan, timer=time.monotonic)
        for _ in range(1 + EXTRA_PASSES):
            before = self.tally.skipped[Skip.FRESH]
            await self._pass(iter(walk))
            if self.tally.skipped[Skip.FRESH] == before:
                break
            await asyncio.sleep(seconds(self._options.scan.settle))
        return self.tally

    async def watch(self) -> None:
        """Add files for ever: at once where the kernel reports changes, else at the next rescan."""
        options, loop = self._options, asyncio.get_running_loop()
        with Inotify.over(root_of(options.scan)) as changes:
            walk = Walk(
                options.scan,
                entering=changes.add,
                open_files=changes.open_files,
                timer=time.monotonic,
            )
            due, unsettled = loop.time(), set[str]()
            while True:
                if loop.time() >= due:
                    changes.try_again()
                    unsettled = await self._rescan(walk)
                    due = loop.time() + seconds(options.rescan) * self._rng.uniform(0.75, 1.25)
                pause = max(0.0, due - loop.time())
                if unsettled:
                    pause = min(pause, max(seconds(options.scan.settle), _GATHER_S))
                if changed := await changes.wait(pause):
                    # One change seldom comes alone.
                    await asyncio.sleep(_GATHER_S)
                    changed |= await changes.wait(0)
                await self._pass(walk.named(unsettled | changed), self._known)
                unsettled = walk.take_unsettled()

    async def _rescan(self, walk: Walk) -> set[str]:
        """Look at every file, and ask the store for those that it is not known to have.

        A file may change without its directory, so each is examined; only the questions to the
        store are saved.
        """
        known = self._known
        if not await self._queue.intake.still_holds(self._mark):
            known.forget()
        known.begin_pass()
        await self._pass(walk.unknown(known), known)
        known.end_pass()
        return walk.take_unsettled()

    async def _pass(
        self, walk: Iterator[ScannedFile | Skip | Known], known: KnownFiles | None = None
    ) -> None:
        chunk = await asyncio.to_thread(_chunk, walk)
        while chunk:
            # The next files are read while these are added.
            following = asyncio.create_task(asyncio.to_thread(_chunk, walk))
            try:
                await self._enqueue(chunk)
                if known is not None:
                    known.add([*chunk.known, *map(hash, chunk.files)])
            finally:
                chunk = await following
        self._on_progress(self.tally)

    async def _enqueue(self, chunk: "_Chunk") -> None:
        files = chunk.files
        self._count_skipped(chunk.skipped)
        self.tally.found += len(files) + len(chunk.known)
        known = await self._queue.intake.known(files)
        new = [file for file, is_known in zip(files, known, strict=True) if not is_known]
        self.tally.known += len(files) - len(new) + len(chunk.known)
        await self._put(new)
        self._on_progress(self.tally)

    async def _put(self, files: Sequence[ScannedFile]) -> None:
        keys, now_ns = self._queue.keys, time.time_ns()
        priorities = [self._priorities.of(file.path) for file in files]
        queues = (keys.queues[keys.lane_of(None, priority) - 1] for priority in priorities)
        with self._traces.producing(queues) as traces:
            marked = zip(files, priorities, traces, strict=False)
            await self._send(
                [
                    entry(keys, file, priority=priority, now_ns=now_ns, trace=trace)
                    for file, priority, trace in marked
                ]
            )

    async def _send(self, left: list[Entry]) -> None:
        rate = self._options.rate_limit_per_sec
        # More than the bucket ever holds would only be sent to be refused.
        most = burst_of(rate) if rate else len(left)
        while left:
            asked, later = left[:most], left[most:]
            added = await self._queue.intake.put(asked, rate=rate)
            self._count(asked, added.codes)
            left = [each for each, code in zip(asked, added.codes, strict=True) if code == WAITS]
            if left:
                # Not all producers at the same instant.
                await asyncio.sleep(added.wait_ms / 1000 * self._rng.uniform(1.0, 1.1))
            left += later

    def _count_skipped(self, skipped: Counter[Skip]) -> None:
        self.tally.skipped.update(skipped)
        if self._metrics:
            for reason, count in skipped.items():
                self._metrics.files_skipped.of(reason.value).inc(count)

    def _count(self, entries: Sequence[Entry], codes: Sequence[int]) -> None:
        self.tally.enqueued += codes.count(NEW)
        self.tally.known += codes.count(KNOWN)
        for each, code in zip(entries, codes, strict=True):
            if code == NEW and self._metrics:
                self._metrics.jobs_produced.of(self._queue.keys.queues[each.lane - 1]).inc()


def _ending(ext: str) -> str:
    return f".{ext.lower()}" if ext and not ext.startswith(".") else ext.lower()


class _Chunk(NamedTuple):
    """A part of a walk."""

    files: list[ScannedFile]
    known: list[int]
    """Hashes of files that the store is known to have."""
    skipped: Counter[Skip]


def _chunk(walk: Iterator[ScannedFile | Skip | Known]) -> _Chunk | None:
    files, known, skipped = list[ScannedFile](), list[int](), Counter[Skip]()
    for each in islice(walk, BATCH):
        match each:
            case Skip():
                skipped[each] += 1
            case Known(hashes):
                known += hashes
            case _:
                files.append(each)
    return _Chunk(files, known, skipped) if files or known or skipped else None
