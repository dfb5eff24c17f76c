"""From a directory into the line: nothing twice, nothing half written, not too fast."""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.core.telemetry.traces import Traces

from .inotify import Inotify
from .intake import Entry, burst_of, entry
from .options import Layout
from .queue import Queue
from .scan import Found, ScanOptions, Skip, Walk, root_of
from .scripts import KNOWN, NEW, WAITS

_log = get_logger(__name__)

BATCH = 500
EXTRA_PASSES = 3
"""Further looks that a single scan takes for files that were still being written."""

_GATHER_S = 0.05


class ProducerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is put in line, where, and how fast."""

    scan: ScanOptions = ScanOptions()
    default_priority: str = "low"
    high_priority_exts: tuple[str, ...] = (".pdf", ".docx", ".xlsx", ".zip")
    rate_limit_per_sec: int = 0
    """For all producers together; 0 means as fast as it goes."""
    rescan_s: float = 30.0
    """How often a watched directory is walked as a whole, whatever the kernel tells."""

    def __post_init__(self) -> None:
        if self.rate_limit_per_sec < 0:
            raise InvalidOption(
                f"rate_limit_per_sec must be at least 0, got {self.rate_limit_per_sec}"
            )


class Priorities:
    """Which priority a file gets; the same for a producer and for a bulk load."""

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
        """The priority that a file's ending gives it."""
        is_urgent = os.path.splitext(path)[1].lower() in self._urgent
        return self._first if is_urgent else self._default


class Tally(msgspec.Struct):
    """What a scan came to."""

    found: int = 0
    enqueued: int = 0
    known: int = 0
    """Put in line before, and unchanged since."""
    skipped: Counter[Skip] = msgspec.field(default_factory=Counter[Skip])


class Producer:
    """Turns one directory into jobs."""

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
        self._dice = random.Random()
        self._priorities = Priorities(self._options, queue.keys.layout)
        self.tally = Tally()

    async def scan(self) -> Tally:
        """Put every file in line that is not there yet; waits for those still being written."""
        for _ in range(1 + EXTRA_PASSES):
            before = self.tally.skipped[Skip.FRESH]
            await self._pass(iter(Walk(self._options.scan)))
            if self.tally.skipped[Skip.FRESH] == before:
                break
            await asyncio.sleep(self._options.scan.settle_s)
        return self.tally

    async def watch(self) -> None:
        """Go on for ever: at once where the kernel tells of changes, and by walking in between."""
        options = self._options
        loop = asyncio.get_running_loop()
        with Inotify.over(root_of(options.scan)) as changes:
            due, unsettled = loop.time(), set[str]()
            while True:
                if loop.time() >= due:
                    await asyncio.to_thread(changes.look_everywhere)
                    unsettled = await self._look_at({root_of(options.scan)})
                    due = loop.time() + options.rescan_s * self._dice.uniform(0.75, 1.25)
                pause = max(0.0, due - loop.time())
                if unsettled:
                    pause = min(pause, max(options.scan.settle_s, _GATHER_S))
                if changed := await changes.wait(pause):
                    # One change seldom comes alone.
                    await asyncio.sleep(_GATHER_S)
                    changed |= await changes.wait(0)
                unsettled = await self._look_at(unsettled | changed)

    async def _look_at(self, directories: set[str]) -> set[str]:
        """Walk what has changed; the ones to look at again are those with unsettled files."""
        again: set[str] = set()
        walk = Walk(self._options.scan)
        for directory in directories:
            before = self.tally.skipped[Skip.FRESH]
            await self._pass(walk.under(directory))
            if self.tally.skipped[Skip.FRESH] > before:
                again.add(directory)
        return again

    async def _pass(self, walk: Iterator[Found | Skip]) -> None:
        chunk = await asyncio.to_thread(_chunk, walk)
        while chunk:
            # The next files are looked for while these are put in line.
            following = asyncio.create_task(asyncio.to_thread(_chunk, walk))
            try:
                await self._enqueue(chunk)
            finally:
                chunk = await following
        self._on_progress(self.tally)

    async def _enqueue(self, chunk: Sequence[Found | Skip]) -> None:
        files = [each for each in chunk if isinstance(each, Found)]
        self._count_skipped(Counter(each for each in chunk if isinstance(each, Skip)))
        self.tally.found += len(files)
        known = await self._queue.intake.known(files)
        new = [file for file, is_known in zip(files, known, strict=True) if not is_known]
        self.tally.known += len(files) - len(new)
        await self._put(new)
        self._on_progress(self.tally)

    async def _put(self, files: Sequence[Found]) -> None:
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
        # More than the allowance ever holds would only travel to be refused.
        most = burst_of(rate) if rate else len(left)
        while left:
            asked, later = left[:most], left[most:]
            added = await self._queue.intake.put(asked, rate=rate)
            self._count(asked, added.codes)
            left = [each for each, code in zip(asked, added.codes, strict=True) if code == WAITS]
            if left:
                # Not all producers at the same instant.
                await asyncio.sleep(added.wait_ms / 1000 * self._dice.uniform(1.0, 1.1))
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


def _chunk(walk: Iterator[Found | Skip]) -> list[Found | Skip]:
    return list(islice(walk, BATCH))
