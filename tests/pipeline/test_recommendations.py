"""Recommendations that a run writes back to the queues."""

import datetime as dt
import random
from typing import Any

import pytest
from redis import Redis

from tests.pipeline.ask import lakes
from waystation.core.line.forecasts import DesiredWorkers, key_of, read
from waystation.pipeline.feedback import backlogs, write_recommendations
from waystation.pipeline.gold.forecast import SLOT_S, backlog, forecast
from waystation.pipeline.history import History
from waystation.pipeline.silver.moves import OPEN_ITEMS
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.tables import ATTEMPTS, CAPACITY, HOURLY, SLOTS

HOUR = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=6)).replace(minute=0, second=0, microsecond=0)
"""In the future, however long the tests take: recommendations of the past expire at once."""


def _no_spark() -> Any:
    raise AssertionError("so few rows need no Spark")


def needed(hour: dt.datetime, workers: int | None, minute: int) -> dict[str, Any]:
    return {
        "product": "bullmq",
        "queue": "mail",
        "hour": hour,
        "arrivals_per_s": 1.0,
        "busiest_per_s": minute / 60,
        "service_mean_ms": None if workers is None else 50.0,
        "busy_workers": 1.0,
        "seen_workers": 4,
        "target_wait_ms": 1_000,
        "workers_needed": workers,
    }


@pytest.mark.parametrize(
    ("before", "present", "wanted"),
    [(132, 1, (132, 3_000, 18_000.0)), (7, 9, (9, 60, 40.0)), (132, None, (132, 3_000, 18_000.0))],
)
def test_a_new_hour_does_not_forget_the_one_before(
    root: str,
    store: Redis,
    redis_url: str,
    before: int,
    present: int | None,
    wanted: tuple[int, int, float],
) -> None:
    an_hour = dt.timedelta(hours=1)
    rows = [
        needed(HOUR - an_hour, 500, 9_000),
        needed(HOUR, before, 3_000),
        needed(HOUR + an_hour, present, 60),
    ]
    lakes.store(root, CAPACITY, rows, 0)
    waits = {HOUR: 18_000.0, HOUR + an_hour: 40.0}
    shared = {"product": "bullmq", "queue": "mail", "completed": 1, "failed": 0}
    hours = [{**shared, "hour": hour, "wait_p95_ms": wait} for hour, wait in waits.items()]
    lakes.store(root, HOURLY, hours, 0)

    now = HOUR + an_hour + dt.timedelta(minutes=1)
    write_recommendations(
        History(_no_spark, root), Store(redis_url), now, EventOptions(url=redis_url)
    )
    text: Any = store.hget(key_of(DesiredWorkers, "mail"), "bullmq")
    found = read(text, DesiredWorkers, now_ms=int(now.timestamp() * 1000))
    assert found is not None
    assert (found.workers, found.busiest_minute, found.wait_p95_ms) == wanted


def test_workers_are_advised_for_what_came_lately_and_for_what_waits_now(
    root: str, store: Redis, redis_url: str
) -> None:
    """Two hundred jobs of ten seconds in the last hour, and then two hundred that wait."""
    now = HOUR + dt.timedelta(minutes=59)
    lakes.store(root, CAPACITY, [needed(HOUR, 500, 60)], 0)
    lakes.store(
        root, ATTEMPTS, [attempt(now - dt.timedelta(seconds=15 * n)) for n in range(4, 204)], 0
    )

    def advised(batch: int, *waiting: dict[str, Any]) -> int:
        lakes.store(root, OPEN_ITEMS, list(waiting), batch)
        write_recommendations(
            History(_no_spark, root), Store(redis_url), now, EventOptions(url=redis_url)
        )
        text: Any = store.hget(key_of(DesiredWorkers, "mail"), "bullmq")
        found = read(text, DesiredWorkers, now_ms=int(now.timestamp() * 1000))
        assert found is not None
        return found.workers

    # One job every fifteen seconds, of ten seconds each.
    assert advised(0) == 1
    assert advised(1, *(item(f"d{n}", "delayed") for n in range(200))) == 1
    busy = advised(2, *(item(f"w{n}", "waiting") for n in range(200)))
    assert 20 <= busy <= 250


@pytest.mark.parametrize("hours", [1, 30])
def test_a_forecast_is_of_what_is_open_whatever_has_come_and_gone(root: str, hours: int) -> None:
    """Also of what came before the hours that are looked at, and of jobs that left unseen."""
    now = HOUR + dt.timedelta(minutes=30)
    dice, history = random.Random(hours), History(_no_spark, root)
    at = now - dt.timedelta(hours=hours)
    open_now = [{**item(f"w{n}", "waiting"), "last_recorded_at": at} for n in range(20)]
    running = [item(f"a{n}", "active") for n in range(3)]
    lakes.store(root, OPEN_ITEMS, [*open_now, *running, item("d", "delayed")], 0)
    last = int(now.timestamp()) // SLOT_S
    rows = [
        {
            "product": "bullmq",
            "queue": "mail",
            "hour": dt.datetime.fromtimestamp(slot * SLOT_S, dt.UTC).replace(minute=0, second=0),
            "slot": slot,
            "came": dice.randrange(5),
            "ended": dice.randrange(1, 5),
        }
        for slot in range(last - 150, last)
    ]
    lakes.store(root, SLOTS, rows, 0)
    (series,) = backlogs(history, now).values()
    assert backlog(series)[-1] == 23
    found = forecast(series, seconds=SLOT_S)
    assert found is not None
    assert found.waiting == 23
    # Nothing has ended for an hour.
    (later,) = backlogs(history, now + dt.timedelta(hours=1)).values()
    assert backlog(later)[-1] == 23
    assert forecast(later, seconds=SLOT_S) is None


def attempt(ready: dt.datetime) -> dict[str, Any]:
    second = dt.timedelta(seconds=1)
    return {
        "product": "bullmq",
        "queue": "mail",
        "job_id": ready.isoformat(),
        "attempt": 1,
        "ready_at": ready,
        "started_at": ready + second,
        "ended_at": ready + 11 * second,
        "wait_ms": 1_000,
        "run_ms": 10_000,
        "outcome": "completed",
        "date": ready.date(),
    }


def item(subject: str, state: str) -> dict[str, Any]:
    """A job that is open, whose last event was written half a minute before the end of the hour."""
    at = HOUR + dt.timedelta(minutes=58, seconds=30)
    names = {"product": "bullmq", "queue": "mail", "job_id": subject, "state": state}
    return {**names, "last_recorded_at": at, "date": at.date()}
