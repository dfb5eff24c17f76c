"""Recent work: what became ready in the last half hour, and what nobody has claimed yet."""

import datetime as dt
from collections import Counter, defaultdict
from typing import Any

import msgspec

from waystation.pipeline.hours import Hours
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_ITEMS
from waystation.pipeline.simulation.advice import WINDOW_S, Arrival
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.tables import ATTEMPTS

_WHOSE = ("line", "queue")


class RecentWork(msgspec.Struct, frozen=True):
    """The recent work of one queue."""

    arrivals: list[Arrival] = []
    waiting: list[float] = []
    """The ages of the jobs that nobody has claimed yet, in seconds."""
    running: list[float] = []
    """The ages of the jobs that run."""


def recent_work(root: str, now: dt.datetime) -> dict[tuple[str, str], RecentWork]:
    """The recent work of every queue, by product and queue."""
    found: dict[tuple[str, str], RecentWork] = defaultdict(RecentWork)
    for row in _claimed(root, now - dt.timedelta(seconds=WINDOW_S), now):
        run_s = None if row["run_ms"] is None else row["run_ms"] / 1000
        mine, age = found[row["line"], row["queue"]], _age(row["ready_at"], now)
        mine.arrivals.append(Arrival(age, run_s))
        if run_s is None:
            mine.running.append(age)
    for row in _open(root, "waiting", columns=(*_WHOSE, "last_told_at")).to_pylist():
        # The last that was told of a job that waits is that it does.
        mine, age = found[row["line"], row["queue"]], _age(row["last_told_at"], now)
        mine.waiting.append(age)
        if age < WINDOW_S:
            mine.arrivals.append(Arrival(age, None))
    return found


def open_work(root: str) -> dict[tuple[str, str], int]:
    """How many jobs wait or run, by product and queue; delayed ones do neither."""
    rows = _open(root, "waiting", "active", columns=_WHOSE)
    return Counter(zip(*(rows[name].to_pylist() for name in _WHOSE), strict=True))


def _claimed(root: str, since: dt.datetime, now: dt.datetime) -> list[dict[str, Any]]:
    """Attempts that became ready since an instant."""
    columns, where = (*_WHOSE, "ready_at", "run_ms"), pc.field("ready_at") > since
    days = Hours((since, now)).days
    kept = delta.read_arrow(
        root, ATTEMPTS, columns, where, by=(), days=days, within=("started_at", since, None)
    )
    running = delta.read_arrow(root, OPEN_ATTEMPTS, columns, where, by=())
    return pa.concat_tables([kept, running]).to_pylist()


def _open(root: str, *states: str, columns: tuple[str, ...]) -> Any:
    among = pc.field("state").isin(pa.array(states))
    return delta.read_arrow(root, OPEN_ITEMS, columns, among, by=("state",))


def _age(instant: dt.datetime, now: dt.datetime) -> float:
    return max(0.0, (now - instant).total_seconds())
