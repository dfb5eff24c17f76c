"""The same answers counted one event at a time, in plain Python."""

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

ENDINGS = {
    "completed": "completed",
    "failed": "failed",
    "retry": "retried",
    "stalled": "stalled",
    "removed": "returned",
}
LETS_GO = {*ENDINGS, "waiting", "delayed"}


class Attempt:
    """One attempt as it is seen while events go by."""

    def __init__(self, row: dict[str, Any], ready: dt.datetime | None) -> None:
        self.queue: str = row["queue"]
        self.worker: str | None = row["worker"]
        self.started: dt.datetime = row["at"]
        self.ready = ready
        self.ended: dt.datetime | None = None
        self.ending: str | None = None

    @property
    def outcome(self) -> str:
        if self.ending:
            return ENDINGS[self.ending]
        if self.ended is None:
            return "open"
        return "returned" if self.worker else "retried"


def attempts(rows: Sequence[dict[str, Any]]) -> list[Attempt]:
    """Return every attempt in the events of many jobs."""
    made: list[Attempt] = []
    running: dict[tuple[str, str], Attempt | None] = {}
    ready: dict[tuple[str, str], dt.datetime | None] = {}
    for row in rows:
        key, event = (row["queue"], row["job_id"]), row["event"]
        if event == "added":
            running[key] = None
        if event == "active":
            running[key] = Attempt(row, ready.pop(key, None))
            made.append(running[key] or Attempt(row, None))
            continue
        if event in ("added", "waiting", "retry", "stalled"):
            ready[key] = row["at"]
        attempt = running.get(key)
        if attempt is None or event not in LETS_GO:
            continue
        attempt.ended = attempt.ended or row["at"]
        if attempt.ending is None and event in ENDINGS:
            attempt.ending = event
    return made


def hourly(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, dt.datetime], dict[str, int]]:
    """How much each queue did in each hour."""
    counts: dict[tuple[str, dt.datetime], dict[str, int]] = defaultdict(
        lambda: dict.fromkeys(("added", "started", "completed", "failed", "retried", "stalled"), 0)
    )
    names = {"active": "started", "added": "added", "completed": "completed", "failed": "failed"}
    for row in rows:
        if name := names.get(row["event"]):
            counts[row["queue"], hour(row["at"])][name] += 1
    for attempt in attempts(rows):
        if attempt.outcome in ("retried", "stalled"):
            counts[attempt.queue, hour(attempt.started)][attempt.outcome] += 1
    return dict(counts)


def hour(instant: dt.datetime) -> dt.datetime:
    """The hour that an instant lies in."""
    return instant.replace(minute=0, second=0, microsecond=0)


def erlang(load: float, service_ms: float, target_ms: float, late: float) -> int:
    """The fewest places with which only few wait too long, from the textbook's sum."""
    for places in range(math.floor(load) + 1, 10_000):
        total = sum(load**k / math.factorial(k) for k in range(places))
        full = load**places / math.factorial(places) * places / (places - load)
        waits = full / (total + full)
        if waits * math.exp(-(places - load) * target_ms / service_ms) <= late:
            return places
    raise AssertionError
