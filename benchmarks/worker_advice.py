"""Advice on workers and forecasts of backlogs, beside fixed numbers and the length of the queue.

ADVICE_TRACES names a folder with traces, `*.csv.gz` with the columns TIMESTAMP and GeneratedTokens:
a job runs for 20 ms and 1 ms for each token, times a factor. Without, two made-up hours are used.
Of each trace the second half is reported: constants may have been chosen by looking at the first.
"""

import bisect
import csv
import datetime as dt
import gzip
import heapq
import math
import os
import random
import statistics
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec

from benchmarks.report import Report, Row
from waystation.pipeline.gold.forecast import BAND, SLOT_S, Slot, backlog, forecast
from waystation.pipeline.gold.staffing import LATE
from waystation.pipeline.simulation.advice import WINDOW_S, Arrival, workers_wanted
from waystation.pipeline.simulation.replay import (
    HOUR_S,
    Attempt,
    Setup,
    fewest_workers,
    recorded,
    replay,
)

EVERY_S = 30.0
"""Seconds between two rounds of the pipeline."""
STALE_S = 5.0
"""Seconds that the newest event in the history is old when advice is given."""
KINDS = ((1, 1.0), (10, 1.0), (10, 5.0), (40, 30.0))
"""Factors of the run times, and targets in seconds."""

Job = tuple[float, float]
"""When it becomes ready, and how long it runs, in seconds."""


class Seen(msgspec.Struct):
    """What the history holds when advice is asked for."""

    claimed: deque[tuple[float, float, float]] = msgspec.field(
        default_factory=deque[tuple[float, float, float]]
    )
    """Ready, run time and start of each job that was claimed."""
    waiting: deque[Job] = msgspec.field(default_factory=deque[Job])
    running: list[float] = []
    """When each job that runs will end."""


Policy = Callable[[float, Seen, int], int]
"""The workers to have, from the instant of the newest event, what is seen, and those there are."""


class Result(msgspec.Struct, frozen=True):
    """What a policy came to."""

    late: float
    hours: float


def run() -> list[Report]:
    """One report for each trace, run time and target, and one for the forecasts of all."""
    halves = [(name, _second_half(trace)) for name, trace in _traces()]
    reports = [
        _report(f"{name}, run times by {factor}, target {target:g} s", jobs, target)
        for name, half in halves
        for factor, target in KINDS
        for jobs in [_slower(half, factor)]
    ]
    return [*reports, _drain_report([half for _, half in halves])]


def _second_half(trace: Sequence[Job]) -> list[Job]:
    middle = trace[-1][0] / 2
    return [(ready - middle, run_s) for ready, run_s in trace if ready >= middle]


def _slower(jobs: Sequence[Job], factor: float) -> list[Job]:
    return [(ready, factor * run_s) for ready, run_s in jobs]


def _report(title: str, jobs: Sequence[Job], target_s: float) -> Report:
    attempts = (Attempt(str(n), 1, ready, 0.0, run) for n, (ready, run) in enumerate(jobs))
    work = recorded(attempts)
    best = fewest_workers(work, target_s, Setup(workers=1))
    assert best is not None
    fixed = replay(work, Setup(workers=best)).worker_hours
    ours = followed(jobs, target_s, _advised(target_s), first=best)
    length = _by_length_for(jobs, target_s, ours.hours, first=best)
    return Report(
        title=f"{title}: {len(jobs):,} jobs",
        unit="advice followed",
        beside="compared with",
        rows=[
            Row("waits above the target, beside 5 %", ours.late, LATE),
            Row(f"worker-hours, beside {best} all the time", ours.hours, fixed),
            Row("late, beside scaling by length, equal hours", ours.late, max(length.late, 1e-9)),
        ],
        remark="aims: 1, 1.15 and 1; the fixed number and the factor of the scaling are the "
        "best in hindsight",
    )


def _drain_report(halves: Sequence[Sequence[Job]]) -> Report:
    """How many forecasts held, with too few workers, just enough and some more."""
    forecasts = held = 0
    widths: list[float] = []
    for half in halves:
        for factor in (1, 10, 40):
            jobs = _slower(half, factor)
            load = sum(run_s for _, run_s in jobs) / jobs[-1][0]
            for share in (0.8, 1.0, 1.3):
                for is_held, width in _forecasts(_slots(jobs, max(1, round(share * load)))):
                    forecasts, held = forecasts + 1, held + is_held
                    widths.append(width)
    return Report(
        title=f"When a backlog is done: {forecasts:,} forecasts",
        unit="what the band held",
        beside="promised",
        rows=[Row("share of forecasts within their band", held / max(1, forecasts), BAND)],
        remark=f"the median band ends {statistics.median(widths):.1f} times as late as it begins",
    )


def _slots(jobs: Sequence[Job], workers: int) -> list[Slot]:
    """Arrivals and ends of each ten seconds with so many workers."""
    free = [0.0] * workers
    ends: list[float] = []
    for ready, run_s in jobs:
        end = max(ready, heapq.heappop(free)) + run_s
        ends.append(end)
        heapq.heappush(free, end)
    came, ended = (
        Counter(int(at // SLOT_S) for at in some) for some in ([at for at, _ in jobs], ends)
    )
    return [Slot(came[slot], ended[slot]) for slot in range(max(ended) + 1)]


def _forecasts(series: Sequence[Slot]) -> Iterator[tuple[bool, float]]:
    """Whether each forecast of a backlog held, and how many times its low end its high end is."""
    done = list(accumulate(slot.ended for slot in series))
    for at, waiting in list(enumerate(backlog(series)))[30::3]:
        found = forecast(series[: at + 1], seconds=SLOT_S) if waiting >= 20 else None
        goal = done[at] + waiting
        if found is None or done[-1] < goal:
            continue
        reached = bisect.bisect_left(done, goal)
        over = (done[reached] - goal) / max(1, series[reached].ended)
        took_s = (reached - at - over) * SLOT_S
        yield found.low_s <= took_s <= found.high_s, found.high_s / found.low_s


def followed(jobs: Sequence[Job], target_s: float, policy: Policy, *, first: int) -> Result:
    """Let a policy choose the number of workers every half minute."""
    seen, pool = Seen(), first
    hours = last = next_round = 0.0
    late = came = 0
    while came < len(jobs) or seen.waiting or seen.running:
        now = min(
            jobs[came][0] if came < len(jobs) else math.inf,
            seen.running[0] if seen.running else math.inf,
            next_round,
        )
        # A worker that is dismissed finishes what it has begun.
        hours += max(pool, len(seen.running)) * (now - last) / HOUR_S
        last = now
        while seen.running and seen.running[0] <= now:
            heapq.heappop(seen.running)
        while came < len(jobs) and jobs[came][0] <= now:
            seen.waiting.append(jobs[came])
            came += 1
        if now >= next_round:
            pool = policy(now - STALE_S, seen, pool)
            next_round = now + EVERY_S
        while seen.waiting and len(seen.running) < pool:
            ready, run_s = seen.waiting.popleft()
            late += now - ready > target_s + 1e-6
            heapq.heappush(seen.running, now + run_s)
            seen.claimed.append((ready, run_s, now))
    return Result(late / len(jobs), hours)


def _advised(target_s: float) -> Policy:
    def policy(now: float, seen: Seen, pool: int) -> int:
        while seen.claimed and now - seen.claimed[0][0] > WINDOW_S:
            seen.claimed.popleft()
        waiting = [now - ready for ready, _ in seen.waiting if ready <= now]
        arrivals = [
            Arrival(now - ready, run_s if start + run_s <= now else None)
            for ready, run_s, start in seen.claimed
            if ready <= now
        ]
        arrivals += [Arrival(age, None) for age in waiting if age < WINDOW_S]
        wanted = workers_wanted(arrivals, waiting, target_s=target_s, running=len(seen.running))
        return wanted or pool

    return policy


def _by_length(factor: float) -> Policy:
    def policy(now: float, seen: Seen, pool: int) -> int:
        length = len(seen.running) + sum(ready <= now for ready, _ in seen.waiting)
        return max(1, math.ceil(factor * length))

    return policy


def _by_length_for(jobs: Sequence[Job], target_s: float, hours: float, *, first: int) -> Result:
    """What scaling by length comes to, with the factor that takes as many worker-hours."""
    low, high = 0.1, 64.0
    found = Result(1.0, 0.0)
    for _ in range(10):
        middle = math.sqrt(low * high)
        found = followed(jobs, target_s, _by_length(middle), first=first)
        low, high = (middle, high) if found.hours < hours else (low, middle)
    return found


def _traces() -> Iterator[tuple[str, list[Job]]]:
    folder = os.environ.get("ADVICE_TRACES")
    if not folder:
        yield from _made_up()
        return
    for path in sorted(Path(folder).glob("*.csv.gz")):
        with gzip.open(path, "rt") as lines:
            rows = list(csv.DictReader(lines))
        # Python reads six digits of a second, and these have seven.
        at = [dt.datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows]
        runs = (0.020 + 0.001 * int(row["GeneratedTokens"]) for row in rows)
        first = min(at)
        yield (
            path.name.removesuffix(".csv.gz"),
            sorted((ready - first, run) for ready, run in zip(at, runs, strict=True)),
        )


def _made_up() -> Iterator[tuple[str, list[Job]]]:
    dice = random.Random(14)
    steady = [dice.uniform(0, HOUR_S) for _ in range(10_000)]
    tide = [HOUR_S * dice.betavariate(3, 3) for _ in range(10_000)]
    for name, ready in (("steady", steady), ("rising and falling", tide)):
        yield name, sorted((at, 0.02 + dice.expovariate(5)) for at in ready)
