"""Made-up events of routing over some days: jobs in every kind of fate, and cron schedules."""

import datetime as dt
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from waystation.routing.schedules import next_slot

START = dt.datetime(2026, 3, 1, 22, 40, tzinfo=dt.UTC)
START_MS = int(START.timestamp() * 1000)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
STREAM = "bridge:events:stream"


class RoutingEvent(NamedTuple):
    """One event before it has its place in the stream; its instant counts from the start."""

    at_ms: int
    queue: str
    subject: str
    event: str
    fields: Mapping[str, str] = {}
    worker: str | None = None


def rows(events: list[RoutingEvent]) -> list[dict[str, Any]]:
    """The same as rows of the events table."""
    return [_row(each, seq) for seq, each in enumerate(sorted(events, key=lambda each: each.at_ms))]


def _row(each: RoutingEvent, seq: int) -> dict[str, Any]:
    at = START + dt.timedelta(milliseconds=each.at_ms)
    return {
        "product": "routing",
        "queue": each.queue,
        "stream": STREAM,
        "entry_id": f"{int(at.timestamp() * 1000)}-{seq}",
        "seq": seq,
        "recorded_at": at,
        "at": at,
        "event": each.event,
        "job_id": each.subject,
        "attempt": None,
        "worker": each.worker,
        "fields": list(each.fields.items()),
        "version": 1,
        "_corrupt": None,
        "date": at.date(),
    }


def added(at_ms: int, job: str, queue: str = "render", target: str = "gpu") -> RoutingEvent:
    """A job is added."""
    return RoutingEvent(at_ms, queue, job, "added", {"lane": "N", "target": target})


def schedule_added(
    at_ms: int, schedule: str, cron: str, timezone: str = "UTC", *, first_ms: int | None = None
) -> RoutingEvent:
    """A cron schedule is added."""
    due = next_slot(cron, timezone, START_MS + at_ms) if first_ms is None else START_MS + first_ms
    fields = {"due": str(due), "kind": "cron", "cron": cron, "timezone": timezone}
    return RoutingEvent(at_ms, "report", schedule, "delayed", fields)


def fired(at_ms: int, schedule: str, slot_ms: int, event: str = "fired") -> RoutingEvent:
    """A slot is fired, or skipped."""
    slot = str(START_MS + slot_ms)
    fields = {"schedule": schedule, "slot": slot}
    if event == "skipped":
        fields["reason"] = "overlap"
    return RoutingEvent(at_ms, "report", f"{schedule}:{slot}", event, fields)


def some_days(dice: random.Random, *, days: int = 4, jobs: int = 60) -> list[dict[str, Any]]:
    """Events of jobs and schedules over some days, some written later than they happened."""
    events: list[RoutingEvent] = []
    for number in range(jobs):
        events += _life(dice, f"j{number}", dice.randrange(days * DAY))
    for worker in ("w1", "w2"):
        events += [RoutingEvent(dice.randrange(days * DAY), "", worker, "joined", {}, worker)]
    for number, cron in enumerate(("*/20 * * * *", "30 2 * * *", "0 */3 * * *", "5 4 1 * *")):
        events += _schedule(dice, f"c{number}", cron, days)
    found = rows(events)
    for row in found:
        if dice.random() < 0.05:
            row["at"] -= dt.timedelta(minutes=dice.randrange(1, 3000))
    return found


def _life(dice: random.Random, job: str, at_ms: int) -> Iterator[RoutingEvent]:
    """One job from its addition on; its id may be used again."""
    queue, target = dice.choice(["render", "mail"]), dice.choice(["gpu", "eu", "none"])
    now = at_ms
    if dice.random() < 0.95:
        yield added(now, job, queue, target)
    if dice.random() < 0.2:
        yield RoutingEvent(now, queue, job, "delayed", {"due": "1", "kind": "delayed"})
        now += dice.randrange(2 * DAY)
    yield RoutingEvent(now, queue, job, "waiting")
    if target == "none":
        if dice.random() < 0.3:
            yield RoutingEvent(now + dice.randrange(DAY), queue, job, "cancelled")
        return
    for worker in dice.sample(["w1", "w2", "w3"], dice.choice([1, 1, 2])):
        now += dice.randrange(HOUR)
        yield RoutingEvent(now, queue, job, "active", {"prev": "waiting"}, worker)
        now += dice.randrange(12 * HOUR)
        yield RoutingEvent(now, queue, job, "progress", {"percent": "50"}, worker)
    end = dice.choice(["completed", "completed", "dead", None])
    if end is None:
        return
    yield RoutingEvent(now, queue, job, end)
    if end == "dead":
        yield RoutingEvent(now + dice.randrange(DAY), "", job, "removed", {"reason": "purged"})
    elif dice.random() < 0.3:
        yield from _life(dice, job, now + dice.randrange(1, DAY))


def _schedule(dice: random.Random, schedule: str, cron: str, days: int) -> Iterator[RoutingEvent]:
    """One schedule with its slots; it may be cancelled, and added again."""
    zone = dice.choice(["UTC", "Europe/Vienna", "Asia/Kolkata"])
    now = dice.randrange(DAY)
    yield added(now, schedule, "report", "any")
    yield schedule_added(now, schedule, cron, zone)
    ends = now + dice.randrange(days * DAY)
    slot = next_slot(cron, zone, START_MS + now)
    while slot is not None and slot - START_MS < min(ends, days * DAY):
        at = slot - START_MS
        slot = next_slot(cron, zone, slot)
        fate = dice.random()
        if fate < 0.2:
            continue
        late = dice.choice([10, 10, 9_000, dice.randrange(2 * DAY)])
        yield fired(at + late, schedule, at, "skipped" if fate < 0.3 else "fired")
        if fate > 0.9:
            yield fired(at + late, schedule, at)
    if ends < days * DAY:
        yield RoutingEvent(ends, "report", schedule, "cancelled", {"by": "ada"})
        if dice.random() < 0.5:
            again = ends + dice.randrange(1, HOUR)
            yield added(again, schedule, "report", "any")
            yield schedule_added(again, schedule, "*/30 * * * *", zone)
