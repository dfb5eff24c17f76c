"""What the routing line adds to the history: demand beside supply, and slots beside the clock."""

import datetime as dt
import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from redis import Redis

from tests.pipeline import stories
from tests.pipeline.raw_streams import event_rows
from tests.pipeline.summed import summed
from tests.routing.harness import harness_on
from waystation.core.durations import instant
from waystation.core.errors import InvalidInput
from waystation.pipeline.products import product_named
from waystation.pipeline.products.cron_slots import (
    CRON_SLOTS,
    cron_slots,
    expected_slots,
    merged,
    schedules,
)
from waystation.pipeline.products.cron_slots import rows_from_events as fired_slots
from waystation.pipeline.products.routing import ROUTES, RoutingEncoder, routed_jobs
from waystation.pipeline.sources.batch_writer import BatchWriter
from waystation.routing import Schedule, Target
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.schedules import next_slot


async def test_routes_tell_what_is_asked_for_and_who_serves_it(
    spark: SparkSession, redis_url: str, root: str
) -> None:
    async with harness_on(redis_url) as harness:
        source = harness.source("w1")
        for _ in range(3):
            await harness.add("render", target=Target(capabilities=("gpu",)))
        for _ in range(2):
            await harness.add("render")
        await harness.clock.advance(5)
        for claim in await harness.claim(source, 9):
            await harness.settle(source, claim)
        await harness.clock.advance(10)
        await harness.add("mail")
        rows = await event_rows(harness.redis, harness.keys.events)

    found = {
        (row["queue"], "gpu" in row["target"]): row
        for row in summed(spark, root, routed=routed_jobs(stories.frame(spark, rows)))(ROUTES)
    }

    picky, plain, mail = found["render", True], found["render", False], found["mail", False]
    assert (picky["added"], picky["started"], picky["waiting"]) == (3, 0, 3)
    assert (picky["unserved"], picky["workers"], picky["head_ms"]) == (True, 0, 15_000)
    assert (plain["added"], plain["started"], plain["waiting"]) == (2, 2, 0)
    assert (plain["unserved"], plain["workers"], plain["wait_ms"]) == (False, 1, 5_000)
    assert (mail["waiting"], mail["head_ms"]) == (1, 0)


async def test_slots_are_on_time_late_missed_skipped_or_doubled(
    spark: SparkSession, redis_url: str
) -> None:
    async with harness_on(redis_url) as harness:
        minutely = await harness.add("report", schedule=Schedule(cron="* * * * *"))
        upkeep = await harness.upkeep()
        to_the_minute = 60 - harness.clock.now_ms() / 1000 % 60
        await harness.clock.advance(to_the_minute)
        await upkeep.fire_schedules()  # on time
        await harness.clock.advance(90)
        await upkeep.fire_schedules()  # half a minute late
        await harness.clock.advance(120)
        await upkeep.fire_schedules()  # one made up for, late, and one left out
        rows = await event_rows(harness.redis, harness.keys.events)
    fired = [row for row in rows if row["event"] == "fired"]
    # What no upkeep of ours does: a slot fired twice, and one that nobody fired.
    again = {**fired[0], "entry_id": "1-1"}
    kept = [row for row in rows if row is not fired[1] and row["event"] != "skipped"]
    broken = stories.frame(spark, [*kept, again])

    whole = slots_of(stories.frame(spark, rows))
    bad = slots_of(broken)

    assert set(whole[0].asDict()) == set(CRON_SLOTS.names)
    assert {row["schedule"] for row in whole} == {minutely}
    assert [row["verdict"] for row in whole] == ["on time", "late", "skipped", "late"]
    assert [row["late_ms"] for row in whole] == [0, 30_000, None, 30_000]
    assert [row["verdict"] for row in bad] == ["doubled", "missed", "missed", "late"]


def slots_of(events: DataFrame) -> list[Row]:
    """The slots of all events at once."""
    last: Any = events.agg(F.max("recorded_at")).collect()[0][0]
    until = last.astimezone(dt.UTC)
    known = schedules(routed_jobs(events).toArrow()).to_pylist()
    days = [until.date() + dt.timedelta(days=n) for n in (-1, 0)]
    ((_, expected),) = expected_slots(known, days, until)
    wanted = events.sparkSession.createDataFrame(expected)
    return cron_slots(wanted, merged(fired_slots(events))).orderBy("slot").collect()


@pytest.mark.parametrize("zone", ["Europe/Vienna", "America/New_York", "Australia/Lord_Howe"])
def test_slots_are_expected_by_the_clock_of_their_zone(zone: str) -> None:
    year = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    first = next_slot("30 2 * * *", zone, int(year.timestamp() * 1000))
    assert first is not None
    schedule = {"queue": "report", "schedule": "c", "cron": "30 2 * * *", "timezone": zone}
    schedule |= {"added_at": year, "first_slot": instant(first), "ended_at": None}
    days = [year.date() + dt.timedelta(days=n) for n in range(365)]

    ((_, found),) = expected_slots([schedule], days, year + dt.timedelta(days=365))

    slots = found["slot"].to_pylist()
    assert len(slots) in (365, 366)
    assert len(set(slots)) == len(slots)


def test_the_line_says_where_its_stream_is() -> None:
    facts = product_named("routing")

    assert facts.streams.key("bridge", "anything") == "bridge:events:stream"
    tables = (*(each.table for each in facts.folded), *facts.tables)
    assert [table.name for table in tables] == [
        "routed_jobs",
        "fired_slots",
        "route_days",
        "routes",
        "schedules",
        "cron_slots",
    ]


def test_rows_become_jobs_of_their_type_once(store: Redis) -> None:
    rows = [
        {"key": f"{n}", "type": "render", "payload": f'{{"scene": {n}}}', "priority": 5}
        for n in range(300)
    ]
    rows.append({"key": "later", "type": "mail", "delay": 60_000, "job_id": "m1"})
    rows.append({"key": "gpu", "type": "render", "target": '{"capabilities": ["gpu"]}'})
    batch = BatchWriter(RoutingEncoder(), "any", "bridge", "june", keep_ms=60_000)
    first = batch.add(store, rows, chunk=100)
    again = batch.add(store, rows, chunk=100)
    assert (first.new, again.new, again.known) == (302, 0, 302)
    assert (store.llen("bridge:jobs:waiting"), store.zcard("bridge:jobs:delayed")) == (301, 1)
    kept = json.loads(store.get("bridge:jobs:data:m1") or b"")
    assert kept["type"] == "mail"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"type": ""}, "type"),
        ({"type": "render", "payload": "{"}, "JSON"),
        ({"type": "render", "priority": 11}, "priority must be 1 to 10"),
        ({"type": "render", "target": '{"server": 7}'}, "server"),
    ],
)
def test_a_row_that_cannot_be_a_job_is_refused(row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        RoutingEncoder().job(RoutingKeys(), row)
