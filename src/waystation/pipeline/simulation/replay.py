"""Replay of work: an event simulation of workers that take jobs from one queue."""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from waystation.pipeline.gold.staffing import LATE
from waystation.pipeline.simulation.work import Work

HOUR_S = 3600.0
_NEVER = math.inf


class Order(StrEnum):
    """Which of the waiting jobs comes next."""

    FIFO = "fifo"
    LIFO = "lifo"
    PRIORITY = "priority"


class Rate(NamedTuple):
    """Most jobs that may start within some seconds; the first one opens a window, as in BullMQ."""

    most: int
    seconds: float


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What work is replayed with. A worker with a concurrency of n counts as n."""

    workers: int
    order: Order = Order.FIFO
    rate: Rate | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay came to."""

    waits: list[float]
    """The wait of each attempt, in the order of the work."""
    ready: list[float]
    """When each was ready."""
    worker_hours: float
    busy: float
    """The share of these hours in which something ran."""
    span_s: float

    def percentile(self, part: float) -> float:
        """A percentile of the waits, in seconds; 0 without any."""
        return percentile(self.waits, part)

    def late(self, target_s: float) -> float:
        """The share of waits that are longer than a target."""
        # Sums of instants are off by less than that.
        many = sum(wait > target_s + 1e-6 for wait in self.waits)
        return many / len(self.waits) if self.waits else 0.0


def percentile(values: Sequence[float], part: float) -> float:
    """The least value that so large a part does not exceed; 0 without any."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)] if values else 0.0


def replay(work: Work, setup: Setup) -> Outcome:
    """Let workers take the work, each job when it is ready, each attempt after the one before."""
    is_plain = setup.order is Order.FIFO and setup.rate is None
    waits, ready = (_in_order if is_plain else _stepwise)(work, setup)
    ends = (sum(each) for each in zip(ready, waits, work.runs, strict=True))
    span_s = max(ends, default=0.0)
    return Outcome(
        waits=waits,
        ready=ready,
        worker_hours=setup.workers * span_s / HOUR_S,
        busy=sum(work.runs) / (setup.workers * span_s) if span_s else 0.0,
        span_s=span_s,
    )


def fewest_workers(work: Work, target_s: float, setup: Setup) -> int | None:
    """The fewest workers with which at most `LATE` of the waits are longer than the target.

    None when jobs wait for the rate, and no number of workers helps.
    """

    def are_enough(workers: int) -> bool:
        more = msgspec.structs.replace(setup, workers=workers)
        return replay(work, more).late(target_s) <= LATE

    # With that many, nothing waits for a worker.
    most = max(1, len(work))
    return fewest_that(are_enough, most=most) if are_enough(most) else None


def fewest_that(are_enough: Callable[[int], bool], *, most: int) -> int:
    """The fewest workers that are enough, where `most` are."""
    least = tried = 1
    while tried < most and not are_enough(tried):
        least, tried = tried + 1, tried * 2
    most = min(tried, most)
    while least < most:
        middle = (least + most) // 2
        if are_enough(middle):
            most = middle
        else:
            least = middle + 1
    return least


def _in_order(work: Work, setup: Setup) -> tuple[list[float], list[float]]:
    """Waits of attempts, and when each was ready: first in, first out, and without a rate.

    Whoever comes next takes the worker that is free first, so that nothing else has to be watched,
    which is several times as fast as from instant to instant.
    """
    free = [0.0] * setup.workers
    ready, waits = list(work.ready), [0.0] * len(work)
    runs, follows, take = work.runs, work.follows, heapq.heapreplace
    again: list[tuple[float, int]] = []
    firsts, came = work.firsts, 0
    while came < len(firsts) or again:
        if again and (came == len(firsts) or again[0][0] < ready[firsts[came]]):
            comes, at = heapq.heappop(again)
            ready[at] = comes
        else:
            at = firsts[came]
            comes = ready[at]
            came += 1
        starts = comes if comes > free[0] else free[0]
        ends = starts + runs[at]
        take(free, ends)
        waits[at] = starts - comes
        if follows[at] >= 0:
            heapq.heappush(again, (ends + work.pauses[at], follows[at]))
    return waits, ready


def _stepwise(work: Work, setup: Setup) -> tuple[list[float], list[float]]:
    """Waits of attempts, and when each was ready, from one instant to the next."""
    line = _LINES[setup.order](work.priorities)
    window = _Window(setup.rate)
    ready, waits = list(work.ready), [0.0] * len(work)
    again: list[tuple[float, int]] = []
    running: list[tuple[float, int]] = []
    firsts, came = work.firsts, 0
    now = 0.0
    while came < len(firsts) or again or running or len(line):
        now = min(
            ready[firsts[came]] if came < len(firsts) else _NEVER,
            again[0][0] if again else _NEVER,
            running[0][0] if running else _NEVER,
            window.opens(now) if len(line) else _NEVER,
        )
        while running and running[0][0] <= now:
            _, at = heapq.heappop(running)
            if work.follows[at] >= 0:
                heapq.heappush(again, (now + work.pauses[at], work.follows[at]))
        while came < len(firsts) and ready[firsts[came]] <= now:
            line.push(firsts[came])
            came += 1
        while again and again[0][0] <= now:
            _, at = heapq.heappop(again)
            ready[at] = now
            line.push(at)
        while len(line) and len(running) < setup.workers and window.admits(now):
            at = line.pop()
            waits[at] = now - ready[at]
            heapq.heappush(running, (now + work.runs[at], at))
    return waits, ready


class _Window:
    """The window of a rate: how many have started in it, and when the next one opens."""

    def __init__(self, rate: Rate | None) -> None:
        self._rate = rate
        self._started = 0
        self._ends = -1.0

    def opens(self, now: float) -> float:
        """When a start is possible again; never in case that it is possible now."""
        is_full = self._rate is not None and self._started >= self._rate.most
        return self._ends if is_full and self._ends > now else _NEVER

    def admits(self, now: float) -> bool:
        """Whether one more may start; it is counted."""
        if self._rate is None:
            return True
        if now >= self._ends:
            self._ends, self._started = now + self._rate.seconds, 0
        if self._started >= self._rate.most:
            return False
        self._started += 1
        return True


class _Line(Protocol):
    """Attempts that wait."""

    def __init__(self, priorities: Sequence[int]) -> None: ...

    def __len__(self) -> int: ...

    def push(self, at: int) -> None: ...

    def pop(self) -> int: ...


class _Fifo:
    def __init__(self, priorities: Sequence[int]) -> None:
        self._waiting = deque[int]()

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, at: int) -> None:
        self._waiting.append(at)

    def pop(self) -> int:
        return self._waiting.popleft()


class _Lifo(_Fifo):
    def pop(self) -> int:
        return self._waiting.pop()


class _ByPriority:
    def __init__(self, priorities: Sequence[int]) -> None:
        self._priorities = priorities
        self._waiting: list[tuple[int, int, int]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, at: int) -> None:
        self._pushed += 1
        heapq.heappush(self._waiting, (self._priorities[at], self._pushed, at))

    def pop(self) -> int:
        return heapq.heappop(self._waiting)[2]


_LINES: dict[Order, type[_Line]] = {
    Order.FIFO: _Fifo,
    Order.LIFO: _Lifo,
    Order.PRIORITY: _ByPriority,
}
