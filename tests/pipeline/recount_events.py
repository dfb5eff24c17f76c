"""Raw entries as events, for whoever counts them in plain Python."""

import datetime as dt
from typing import Any, NamedTuple

from tests.pipeline.mixed_entries import Entry

READY = {"added", "fired", "waiting", "redriven", "returned", "retry", "stalled"}
OUTCOMES = {
    "completed": "completed",
    "failed": "failed",
    "dead": "failed",
    "retry": "retried",
    "stalled": "stalled",
    "returned": "returned",
    "cancelled": "returned",
    "removed": "returned",
}
STATES = {
    **dict.fromkeys(READY, "waiting"),
    "delayed": "delayed",
    "waiting-children": "waiting-children",
    "active": "active",
    "completed": "completed",
    "failed": "failed",
    "dead": "failed",
    "removed": "removed",
    "cancelled": "removed",
}
ENDED = {"completed", "failed", "removed"}
KNOWN = {*STATES, "drained", "kept", "progress", "retries-exhausted", "skipped", "joined"}
DAY_MS = 86_400_000
Row = tuple[Any, ...]


class Event(NamedTuple):
    """An entry as it is understood."""

    line: str
    queue: str
    stream: str
    recorded_ms: int
    seq: int
    at_ms: int
    event: str
    subject: str | None
    attempt: int | None
    worker: str | None
    fields: dict[str, str]
    corrupt: str | None

    @property
    def is_birth(self) -> bool:
        is_first_wait = self.event == "waiting" and self.attempt == 1 and "prev" not in self.fields
        return self.event in ("added", "fired") or is_first_wait

    @property
    def is_again(self) -> bool:
        puts_back = self.fields.get("prev") in ("completed", "failed", "dead")
        return self.event == "redriven" or (self.event == "waiting" and puts_back)

    @property
    def reason(self) -> str | None:
        said = self.fields.get
        first = said("failedReason")
        return first if first is not None else said("error") or said("reason")


def event_of(entry: Entry) -> Event:
    """An entry as it is understood."""
    fields = dict(entry.fields)
    millis, _, seq = entry.id.partition("-")
    at_ms = int(fields.pop("at", millis))
    attempt, odd = fields.get("attemptsMade", fields.get("attempt")), list[str]()
    if attempt is not None and not attempt.isdigit():
        odd.append(f"attemptsMade must be a whole number, got {attempt!r}")
        attempt = None
    if entry.line == "bullmq" and entry.event not in KNOWN:
        odd.append(f"unknown event {entry.event!r}")
    if abs(at_ms - int(millis)) > DAY_MS:
        odd.append(f"its instant differs by {at_ms - int(millis)} ms from the entry's")
    worker = fields.get("workerId", fields.get("worker"))
    number = None if attempt is None else int(attempt)
    said = entry.line, entry.queue, entry.stream, int(millis), int(seq), at_ms, entry.event
    return Event(*said, entry.subject, number, worker, fields, "; ".join(odd) or None)


def whose(step: Event) -> tuple[str, str, str]:
    return step.line, step.queue, step.subject or ""


def instant(millis: int | None) -> Any:
    return None if millis is None else EPOCH + dt.timedelta(milliseconds=millis)


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def day(millis: int) -> dt.date:
    return instant(millis).date()


def hour(at: dt.datetime) -> dt.datetime:
    return at.replace(minute=0, second=0, microsecond=0)
