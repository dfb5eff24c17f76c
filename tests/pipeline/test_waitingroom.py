"""What the waiting room adds to the history, and what history gives back to it."""

import datetime as dt
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.pipeline import stories
from tests.pipeline.streams import told
from tests.queues.waitingroom.hands import Hands, hands_on
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.pipeline import rooms
from waystation.pipeline.lines import line_named
from waystation.pipeline.lines.waitingroom import (
    ABANDONMENT,
    ETA_CALIBRATION,
    FAIRNESS,
    FUNNEL,
    SESSIONS,
    VISITS,
    abandonment,
    eta_calibration,
    fairness,
    funnel,
    sessions,
    visits,
)
from waystation.pipeline.sources.store import Store
from waystation.queues.waitingroom.keys import RoomKeys
from waystation.queues.waitingroom.model import Model, closed_form
from waystation.queues.waitingroom.simulator import Crowd, Simulation


@asynccontextmanager
async def an_evening(redis_url: str) -> AsyncGenerator[Hands]:
    """One who buys, one who misses the turn, one who leaves, one who falls silent, one waits."""
    async with hands_on(redis_url) as hands:
        await hands.open(admission_rate=2, max_active=10)
        await hands.join_all("buys", "misses", "leaves", "silent", "waits")
        await hands.admit()
        await hands.clock.advance(10)
        await hands.come_in("buys")
        await hands.control.pause()
        await hands.clock.advance(20)
        await hands.room.leave(hands.places["leaves"], "leaves")
        await hands.clock.advance(100)
        await hands.beat("waits")
        await hands.admit()
        await hands.room.complete(hands.places["buys"])
        await hands.clock.advance(1490)
        await hands.beat("waits")
        await hands.expire()
        yield hands


async def test_a_visit_is_one_row_from_joining_to_its_end(
    spark: SparkSession, redis_url: str
) -> None:
    async with an_evening(redis_url) as hands:
        events = stories.frame(spark, await told(hands.redis, hands.keys.events))
        names = {place.id: name for name, place in hands.places.items()}

    found = visits(events)
    rows = {names[row["visitor"]]: row for row in found.collect()}

    assert found.columns == VISITS.names
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "buys": "completed",
        "misses": "missed",
        "leaves": "left",
        "silent": "expired",
        "waits": "waiting",
    }
    assert [rows[name]["ahead"] for name in ("buys", "misses", "leaves")] == [0, 1, 2]
    assert rows["leaves"]["waited_s"] == 30
    assert rows["buys"]["waited_s"] == 0
    assert rows["waits"]["waited_s"] is None
    (seat,) = sessions(events).collect()
    assert set(seat.asDict()) == set(SESSIONS.names)
    assert (seat["held_s"], seat["ending"]) == (120, "completed")


async def test_the_funnel_counts_every_step_once(spark: SparkSession, redis_url: str) -> None:
    async with an_evening(redis_url) as hands:
        events = stories.frame(spark, await told(hands.redis, hands.keys.events))

    found = funnel(events, visits(events))

    assert found.columns == FUNNEL.names
    total = found.agg(*(F.sum(name).alias(name) for name in FUNNEL.names[3:])).collect()[0]
    assert total.asDict() == {
        "arrived": 5,
        "refused": 0,
        "called": 2,
        "claimed": 1,
        "missed": 1,
        "left": 1,
        "expired": 1,
        "completed": 1,
    }


class Evening(NamedTuple):
    """A simulated evening: what was told, and a store that a model can be written to."""

    events: DataFrame
    queue: str


async def simulated(spark: SparkSession, crowd: Crowd) -> Evening:
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url) as store:
            simulation = Simulation(store, crowd, learn_after=1.0, events_cap=10_000_000)
            await simulation.run()
            rows = await told(store.redis, simulation.room.keys.events)
    return Evening(stories.frame(spark, rows).cache(), simulation.room.queue_id)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_what_spark_has_learnt_makes_better_estimates_of_visits_it_has_not_seen(
    spark: SparkSession, redis_url: str
) -> None:
    # Long enough that the held-out visits are dozens of waits one after the other.
    crowd = Crowd(visitors=12_000, hours=4.0, patience_s=300)
    evening = await simulated(spark, crowd)
    every = visits(evening.events)
    ends: Any = every.agg(F.min("joined_at"), F.max("joined_at")).collect()[0]
    half: dt.datetime = ends[0] + (ends[1] - ends[0]) / 2

    # Learn from what was told before half-time, write it back, and read it as the room does.
    now = half.astimezone(dt.UTC)
    seen = evening.events.where(F.col("at") <= F.lit(half))
    ((queue, learnt),) = rooms.models(seen, now)
    rooms.write(Store(redis_url), queue, learnt, now)
    fields: Any = Store(redis_url).client.hgetall(RoomKeys(queue).model)
    texts = {name.decode(): value.decode() for name, value in fields.items()}
    model = Model.from_fields(texts, now_ms=int(now.timestamp() * 1000))

    assert queue == evening.queue
    assert model.version == learnt.version != "default"
    assert 0.2 <= model.no_show <= 0.6
    held_out = every.where(
        (F.col("joined_at") > F.lit(half)) & F.col("called_at").isNotNull()
    ).collect()
    plain, taught = judged(held_out, Model()), judged(held_out, model)
    print(f"\nheld out {len(held_out)} visits")
    print(f"uncalibrated: error {plain.error:.1%}, between p10 and p90 {plain.covered:.1%}")
    print(f"calibrated:   error {taught.error:.1%}, between p10 and p90 {taught.covered:.1%}")
    assert len(held_out) > 300
    assert taught.error < plain.error
    assert abs(taught.covered - 0.8) < abs(plain.covered - 0.8)
    assert 0.75 <= taught.covered <= 0.85

    checked = fairness(every)
    assert checked.columns == FAIRNESS.names
    assert checked.agg(F.sum("overtaken")).collect()[0][0] == 0
    leaving = abandonment(every)
    assert leaving.columns == ABANDONMENT.names
    assert leaving.agg(F.sum("gone")).collect()[0][0] > 100
    stretched = eta_calibration(every)
    assert stretched.columns == ETA_CALIBRATION.names
    assert all(row["f10"] <= row["f50"] <= row["f90"] for row in stretched.collect())


class Judged(NamedTuple):
    error: float
    covered: float


def judged(rows: list[Any], model: Model) -> Judged:
    errors: list[float] = []
    inside = 0
    for row in rows:
        wait = row["waited_s"]
        if wait < 10 or not row["rate"]:
            continue
        formula = closed_form(row["ahead"] + 1, row["rate"], model.theta)
        errors.append(abs(formula * model.f50 - wait) / wait)
        inside += formula * model.f10 <= wait <= formula * model.f90
    return Judged(sum(errors) / len(errors), inside / len(errors))


def test_too_few_visits_teach_nothing(spark: SparkSession) -> None:
    empty = stories.frame(spark, [])
    assert list(rooms.models(empty, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))) == []


def test_the_line_says_where_its_stream_is() -> None:
    facts = line_named("waitingroom")
    assert facts.stream("queue", "{tickets}") == "queue:{tickets}:events"
    assert [answer.table.name for answer in facts.answers] == [
        "visits",
        "sessions",
        "funnel",
        "abandonment",
        "eta_calibration",
        "fairness",
    ]
