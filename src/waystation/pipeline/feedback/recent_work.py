"""Recent work: what became ready in the last half hour, and what nobody has claimed yet."""

import datetime as dt
from collections import defaultdict
from typing import Any

import msgspec

from waystation.pipeline.history import History, frames_of
from waystation.pipeline.hours import Hours
from waystation.pipeline.silver.moves import READY, STEPS
from waystation.pipeline.simulation.advice import WINDOW_S, Arrival
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.sql import query, texts, to_arrow
from waystation.pipeline.tables import ATTEMPTS

_CLAIMED = """
select line, queue, unix_millis(ready_at) as ready_ms, run_ms
from {attempts}
where ready_at > timestamp_micros(<since>)
"""

# A retry and the delay after it share a millisecond: the delay counts.
_UNCLAIMED = f"""
with placed as (
    select line, queue, subject, event, `at`,
           struct(told_at, case when event in ('retry', 'stalled') then -1 else seq end) as turn
    from {{steps}}
), folded as (
    select line, queue, subject, max_by(event, turn) as event, max_by(`at`, turn) as ready_at
    from placed
    group by line, queue, subject
)
select line, queue, unix_millis(ready_at) as ready_ms
from folded
where event in {texts(READY)}
"""

_OPEN = f"""
with placed as (
    select line, queue, subject, event,
           struct(told_at, case when event in ('retry', 'stalled') then -1 else seq end) as turn
    from {{steps}}
), folded as (
    select line, queue, subject, max_by(event, turn) as event
    from placed
    group by line, queue, subject
)
select line, queue, count(*) as many
from folded
where event in {texts((*READY, "active"))}
group by line, queue
"""


class RecentWork(msgspec.Struct, frozen=True):
    """The recent work of one queue."""

    arrivals: list[Arrival] = []
    waiting: list[float] = []
    """The ages of the jobs that nobody has claimed yet, in seconds."""
    running: list[float] = []
    """The ages of the jobs that run."""


def recent_work(history: History, now: dt.datetime) -> dict[tuple[str, str], RecentWork]:
    """The recent work of every queue, by product and queue."""
    since = now - dt.timedelta(seconds=WINDOW_S)
    hours = Hours(tuple(_hour(each) for each in (since, now)))
    path = ATTEMPTS.path(history.root)
    rows = delta.count(path, days=hours.days, within=("started_at", *hours.bounds))
    frames = frames_of(history, rows=rows + delta.count(STEPS.path(history.root)))
    micros = int(since.timestamp() * 1_000_000)
    claimed = query(_CLAIMED.replace("<since>", str(micros)), attempts=frames.attempts(hours))
    found: dict[tuple[str, str], RecentWork] = defaultdict(RecentWork)
    for row in _rows(claimed):
        run_s = None if row["run_ms"] is None else row["run_ms"] / 1000
        mine, age = found[row["line"], row["queue"]], _age(row, now)
        mine.arrivals.append(Arrival(age, run_s))
        if run_s is None:
            mine.running.append(age)
    for row in _rows(query(_UNCLAIMED, steps=frames.read(STEPS))):
        mine, age = found[row["line"], row["queue"]], _age(row, now)
        mine.waiting.append(age)
        if age < WINDOW_S:
            mine.arrivals.append(Arrival(age, None))
    return found


def open_work(history: History) -> dict[tuple[str, str], int]:
    """How many jobs wait or run, by product and queue; delayed ones do neither."""
    frames = frames_of(history, rows=delta.count(STEPS.path(history.root)))
    rows = _rows(query(_OPEN, steps=frames.read(STEPS)))
    return {(row["line"], row["queue"]): row["many"] for row in rows}


def _rows(frame: Any) -> list[dict[str, Any]]:
    return to_arrow(frame).to_pylist()


def _age(row: dict[str, Any], now: dt.datetime) -> float:
    return max(0.0, now.timestamp() - row["ready_ms"] / 1000)


def _hour(instant: dt.datetime) -> dt.datetime:
    return instant.replace(minute=0, second=0, microsecond=0)
