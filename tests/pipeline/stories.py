"""Made-up histories: random events of many jobs, with every kind of ending."""

import datetime as dt
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from waystation.pipeline.tables import EVENTS

START = dt.datetime(2026, 3, 1, 22, 40, tzinfo=dt.UTC)


class StoryEvent(NamedTuple):
    """One event before it has its place in a stream."""

    at_ms: int
    queue: str
    subject: str
    event: str
    attempt: int | None = None
    worker: str | None = None
    fields: Mapping[str, str] = {}


def random_events(dice: random.Random, jobs: int, *, queues: int = 2) -> list[StoryEvent]:
    """Return random events of some jobs, each queue in the order of its stream."""
    events = [
        each
        for number in range(jobs)
        for each in _life(dice, f"q{number % queues}", str(number), dice.randrange(7_200_000))
    ]
    return sorted(events, key=lambda each: (each.at_ms, each.queue))


def rows(events: list[StoryEvent]) -> list[dict[str, Any]]:
    """The same as rows of the events table."""
    seqs: dict[tuple[str, int], int] = {}
    made: list[dict[str, Any]] = []
    for each in events:
        turn = seqs[each.queue, each.at_ms] = seqs.get((each.queue, each.at_ms), -1) + 1
        at = START + dt.timedelta(milliseconds=each.at_ms)
        made.append(
            {
                "product": "bullmq",
                "queue": each.queue,
                "stream": f"bull:{each.queue}:events",
                "entry_id": f"{int(at.timestamp() * 1000)}-{turn}",
                "seq": turn,
                "recorded_at": at,
                "at": at,
                "event": each.event,
                "job_id": each.subject,
                "attempt": each.attempt,
                "worker": each.worker,
                "fields": dict(each.fields),
                "version": 1,
                "_corrupt": None,
                "date": at.date(),
            }
        )
    return made


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Rows of the events table as Spark has them."""
    return spark.createDataFrame(
        [tuple(row[name] for name in EVENTS.names) for row in rows], EVENTS.schema
    )


def _life(dice: random.Random, queue: str, subject: str, at: int) -> Iterator[StoryEvent]:
    """One job from its birth on; it may end well, badly, never, twice, or begin again."""
    now = at
    made = 0

    def story_event(event: str, **more: Any) -> StoryEvent:
        return StoryEvent(now, queue, subject, event, **more)

    def later(most: int) -> None:
        nonlocal now
        now += dice.randrange(1, most)

    if dice.random() < 0.97:
        yield story_event("added", fields={"name": "charge"})
    if dice.random() < 0.2:
        yield story_event("delayed", fields={"delay": str(now + 500)})
        later(900)
        yield story_event("waiting", fields={"prev": "delayed"})
    else:
        yield story_event("waiting")
    while True:
        if dice.random() < 0.05:
            if dice.random() < 0.5:
                yield story_event("removed", fields={"prev": "wait"})
            return
        later(5_000)
        worker = dice.choice(["ada", "ben", None])
        yield story_event("active", worker=worker, fields={"prev": "waiting"})
        if dice.random() < 0.02:
            return
        later(20_000 if dice.random() < 0.9 else 4_000_000)
        fate = dice.random()
        made += 1
        if fate < 0.7:
            yield story_event(
                "completed", attempt=made, fields={"returnvalue": "1", "prev": "active"}
            )
            if dice.random() < 0.05:
                later(3_600_000)
                yield story_event("removed", fields={"prev": "completed"})
            if dice.random() < 0.05:
                later(3_600_000)
                yield from _life(dice, queue, subject, now)
            return
        if fate < 0.75:
            yield story_event("waiting", fields={"prev": "active"})
            yield story_event("stalled")
        elif fate < 0.9:
            yield story_event("delayed", fields={"delay": str(now + 100)})
            why = f"TimeoutError: no answer after {dice.randrange(1000)} ms"
            yield story_event("retry", attempt=made, fields={"delay": "100", "failedReason": why})
            later(300)
            yield story_event("waiting", fields={"prev": "delayed"})
        elif fate < 0.93:
            yield story_event("waiting", fields={"prev": "active"})
        else:
            reason = f"card {dice.randrange(10**6)} refused"
            yield story_event(
                "failed", attempt=made, fields={"failedReason": reason, "prev": "active"}
            )
            yield story_event("retries-exhausted", attempt=made)
            if dice.random() < 0.7:
                return
            later(3_600_000)
            yield story_event("waiting", fields={"prev": "failed"})
