"""Replay of recorded work: an event simulation of workers that take jobs from one queue."""

import csv
import datetime as dt
import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, TextIO

import msgspec

from waystation.core.errors import InvalidInput
from waystation.pipeline.gold.staffing import LATE

ROUNDED_S = 0.002
"""By how much rounding to milliseconds may move two instants towards each other."""


class Attempt(NamedTuple):
    """One attempt of a job, as it was recorded; all instants in seconds."""

    job: str
    number: int
    """1 for the first attempt of a job."""
    ready: float
    """When it could have been claimed."""
    wait: float
    run: float
    priority: int = 0
    """As BullMQ has it: 0 comes first, then 1 and so on."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts as columns; instants are seconds since the first of them was ready."""

    ready: list[float]
    runs: list[float]
    waits: list[float]
    """The waits that were recorded."""
    has_waits: bool = True
    """Whether waits were recorded; without, they are all 0."""
    priorities: list[int]
    follows: list[int]
    """The attempt that follows on each one, -1 where none does."""
    pauses: list[float]
    """Seconds from the end of each attempt until the one that follows was ready."""
    firsts: list[int]
    """Attempts that follow on none, in the order in which they became ready."""
    start: float
    """The instant of 0, in seconds since 1970."""

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def span_s(self) -> float:
        """Seconds from the first instant to the last recorded end."""
        rows = zip(self.ready, self.waits, self.runs, strict=True)
        return max((sum(each) for each in rows), default=0.0)

    @property
    def most_at_once(self) -> int:
        """The most attempts that ran at the same time."""
        ends: list[float] = []
        most = 0
        rows = zip(self.ready, self.waits, self.runs, strict=True)
        for start, run in sorted((ready + wait, run) for ready, wait, run in rows):
            while ends and ends[0] <= start:
                heapq.heappop(ends)
            # A worker's next job may seem to begin before the end of the one before it.
            heapq.heappush(ends, start + max(run - ROUNDED_S, run / 2))
            most = max(most, len(ends))
        return most


def recorded(attempts: Iterable[Attempt], *, has_waits: bool = True) -> Work:
    """Work from attempts; a later attempt of a job waits for the end of the one before."""
    rows = sorted(attempts, key=lambda each: (each.job, each.ready, each.number))
    start = min((each.ready for each in rows), default=0.0)
    follows, pauses = [-1] * len(rows), [0.0] * len(rows)
    firsts: list[int] = []
    for at, each in enumerate(rows):
        before = rows[at - 1] if at else None
        # A number that does not grow is another job with the same id.
        if before and before.job == each.job and before.number < each.number:
            follows[at - 1] = at
            pauses[at - 1] = max(0.0, each.ready - (before.ready + before.wait + before.run))
        else:
            firsts.append(at)
    ready = [each.ready - start for each in rows]
    return Work(
        ready=ready,
        runs=[each.run for each in rows],
        waits=[each.wait for each in rows],
        has_waits=has_waits,
        priorities=[each.priority for each in rows],
        follows=follows,
        pauses=pauses,
        firsts=sorted(firsts, key=ready.__getitem__),
        start=start,
    )


def from_csv(lines: TextIO) -> Work:
    """Work from a CSV file with the columns `ready` and `run`, and perhaps `wait`, `priority`."""
    rows = csv.DictReader(lines)
    names = rows.fieldnames or ()
    if not {"ready", "run"} <= set(names):
        found = ", ".join(names) or "none"
        raise InvalidInput(f"wanted a CSV file with the columns ready and run, got {found}")
    attempts = (_attempt(number, row) for number, row in enumerate(rows, start=2))
    return recorded(attempts, has_waits="wait" in names)


def _attempt(line: int, row: Mapping[str, str | None]) -> Attempt:
    try:
        return Attempt(
            job=str(line),
            number=1,
            ready=_instant(row["ready"] or ""),
            wait=_not_negative(row.get("wait") or "0"),
            run=_not_negative(row["run"] or ""),
            priority=int(row.get("priority") or 0),
        )
    except ValueError as error:
        raise InvalidInput(f"line {line} cannot be read: {error}") from None


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"wanted seconds, got {text}")
    return value


def _instant(text: str) -> float:
    """Seconds since 1970, from that or from ISO 8601."""
    try:
        return _not_negative(text)
    except ValueError:
        found = dt.datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp()


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
