"""What the waiting room adds to the history, and what history gives back to it."""

import datetime as dt
import random
import re
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.room.simulator import Crowd, Simulation
from tests.pipeline import stories
from tests.pipeline.raw_streams import event_rows
from tests.pipeline.rounds import history_at, keep, reads, visitors
from tests.pipeline.summed import summed
from tests.support.project import SOURCE
from tests.waitingroom.harness import Harness, harness_on
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.pipeline import feedback
from waystation.pipeline.gold.cells import ARRIVED, CELLS
from waystation.pipeline.products import product_named
from waystation.pipeline.products.room_places import STATE, places, room_events
from waystation.pipeline.products.waitingroom import (
    ABANDONMENT,
    ETA_CALIBRATION,
    FAIRNESS,
    FUNNEL,
    SESSIONS,
    VISITS,
    eta_calibration,
    fairness,
    sessions,
    visits,
)
from waystation.pipeline.refresh import fold
from waystation.pipeline.sources.store import Store
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.schemas import schema_of
from waystation.waitingroom.estimates.estimate import Spread
from waystation.waitingroom.estimates.model import FEWEST_VISITS, Model, reached
from waystation.waitingroom.redis.keys import RoomKeys


@asynccontextmanager
async def an_evening(redis_url: str) -> AsyncGenerator[Harness]:
    """One who buys, one who misses the turn, one who leaves, one who falls silent, one waits."""
    async with harness_on(redis_url) as harness:
        await harness.open(admission_rate=2, max_active=10)
        await harness.join_all("buys", "misses", "leaves", "silent", "waits")
        await harness.admit()
        await harness.clock.advance(10)
        await harness.come_in("buys")
        await harness.control.pause()
        await harness.clock.advance(20)
        await harness.room.leave(harness.places["leaves"], "leaves")
        await harness.clock.advance(100)
        await harness.beat("waits")
        await harness.admit()
        await harness.room.complete(harness.places["buys"])
        await harness.clock.advance(1490)
        await harness.beat("waits")
        await harness.expire()
        yield harness


async def test_a_visit_is_one_row_from_joining_to_its_end(
    spark: SparkSession, redis_url: str
) -> None:
    async with an_evening(redis_url) as harness:
        events = stories.frame(spark, await event_rows(harness.redis, harness.keys.events))
        names = {place.id: name for name, place in harness.places.items()}

    found = visits(places(events))
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
    (seat,) = sessions(places(events)).collect()
    assert set(seat.asDict()) == set(SESSIONS.names)
    assert (seat["held_s"], seat["ending"]) == (120, "completed")


async def test_having_left_and_taken_that_back_is_no_end_of_a_visit(
    spark: SparkSession, redis_url: str
) -> None:
    async with harness_on(redis_url) as harness:
        await harness.open()
        await harness.join_all("waits", "leaves again")
        for name, place in harness.places.items():
            await harness.room.leave(place, name)
            await harness.clock.advance(5)
            await harness.room.rejoin(place, name)
        await harness.clock.advance(5)
        await harness.room.leave(harness.places["leaves again"], "leaves again")
        events = stories.frame(spark, await event_rows(harness.redis, harness.keys.events))
        names = {place.id: name for name, place in harness.places.items()}

    rows = {names[row["visitor"]]: row for row in visits(places(events)).collect()}
    waits, leaves = rows["waits"], rows["leaves again"]
    assert (waits["outcome"], waits["gone_at"], waits["recovered"]) == ("waiting", None, 0)
    assert (leaves["outcome"], leaves["waited_s"]) == ("left", 15)
    (lost,) = (id for id, state in states(events).items() if state == "waiting")
    assert names[lost] == "waits"


def states(events: DataFrame) -> dict[str, str]:
    """The state of each place, as the ledger counts it."""
    rows = places(events).selectExpr("job_id", f"{STATE} as state").collect()
    return {row["job_id"]: row["state"] for row in rows}


@pytest.mark.slow
async def test_whoever_an_operator_removed_is_neither_waiting_nor_lost(
    spark: SparkSession, redis_url: str, root: str
) -> None:
    async with harness_on(redis_url) as harness:
        await harness.open(admission_rate=1, max_active=10)
        await harness.join_all("called", "waiting", "stays")
        await harness.admit()
        await harness.clock.advance(30)
        for name in ("called", "waiting"):
            await harness.room.remove(harness.places[name], "spam")
        events = stories.frame(spark, await event_rows(harness.redis, harness.keys.events))
        names = {place.id: name for name, place in harness.places.items()}

    ended = {names[id]: state for id, state in states(events).items()}
    assert ended == {"called": "removed", "waiting": "removed", "stays": "waiting"}
    counted = summed(spark, root, places=places(events))
    (row,) = (row for row in counted(CELLS) if row["kind"] == ARRIVED.name)
    columns = map(ARRIVED.column, ("acknowledged", "terminal", "removed"))
    assert [row[name] for name in columns] == [3, 0, 2]
    rows = {names[row["visitor"]]: row for row in visits(places(events)).collect()}
    assert {name: row["outcome"] for name, row in rows.items()} == ended
    assert (rows["called"]["waited_s"], rows["waiting"]["waited_s"]) == (0, 30)
    # Nobody of them gave up.
    assert sum(row["gone"] for row in counted(ABANDONMENT)) == 0


async def test_the_funnel_counts_every_step_once(
    spark: SparkSession, redis_url: str, root: str
) -> None:
    async with an_evening(redis_url) as harness:
        events = stories.frame(spark, await event_rows(harness.redis, harness.keys.events))

    found = summed(spark, root, room=room_events(events, places(events)))(FUNNEL)

    assert {name: sum(row[name] for row in found) for name in FUNNEL.names[3:]} == {
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
    """A simulated evening: its events, and a store that a model can be written to."""

    events: DataFrame
    queue: str


async def simulated(spark: SparkSession, crowd: Crowd) -> Evening:
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url) as store:
            simulation = Simulation(store, crowd, learn_after=1.0, events_cap=10_000_000)
            await simulation.run()
            rows = await event_rows(store.redis, simulation.room.store.keys.events)
    return Evening(stories.frame(spark, rows).cache(), simulation.room.queue_id)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_what_spark_has_learnt_makes_better_estimates_of_visits_it_has_not_seen(
    spark: SparkSession, redis_url: str, root: str
) -> None:
    # Long enough that the held-out visits are dozens of waits one after the other.
    crowd = Crowd(visitors=12_000, hours=4.0, patience_s=300)
    evening = await simulated(spark, crowd)
    every = visits(places(evening.events))
    ends: Any = every.agg(F.min("joined_at"), F.max("joined_at")).collect()[0]
    half: dt.datetime = ends[0] + (ends[1] - ends[0]) / 2

    # Learn from the events before half-time, write it back, and read it as the room does.
    now = half.astimezone(dt.UTC)
    seen = evening.events.where(F.col("at") <= F.lit(half))
    ((queue, learnt),) = feedback.wait_models(visits(places(seen)), sessions(places(seen)), now)
    feedback.write_model(Store(redis_url), queue, learnt, now)
    fields: Any = Store(redis_url).client.hgetall(RoomKeys(queue).model)
    texts = {name.decode(): value.decode() for name, value in fields.items()}
    model = Model.from_fields(texts, now_ms=int(now.timestamp() * 1000))

    assert queue == evening.queue
    assert model.version == learnt.version != "default"
    assert 0.2 <= model.no_show <= 0.6
    held_out = every.where(
        (F.col("joined_at") > F.lit(half)) & F.col("called_at").isNotNull()
    ).collect()
    plain = judged(held_out, Model())
    one_pair = judged(held_out, msgspec.structs.replace(model, points=()))
    by_length = judged(held_out, model)
    print(f"\nheld out {len(held_out)} visits of seed {crowd.seed}")
    for name, each in (("none", plain), ("one pair", one_pair), ("by length", by_length)):
        lines = ", ".join(f"{length}+: {share:.0%}" for length, share in each.by_length.items())
        print(f"{name:>9}: error {each.error:.1%}, within {each.covered:.1%} ({lines})")
    assert len(held_out) > 300
    assert by_length.error < plain.error
    assert abs(by_length.covered - 0.8) < abs(plain.covered - 0.8)
    assert 0.75 <= by_length.covered <= 0.85
    assert by_length.off < one_pair.off

    taught = eta_calibration(visits(places(seen))).orderBy("ahead_from").collect()
    for row, point in zip(taught, model.points, strict=True):
        enough = row["visits"] >= FEWEST_VISITS
        assert point.people == row["people"]
        assert point.f90 == pytest.approx(row["f90"] if enough else model.f90, abs=1e-4)

    checked = fairness(every, spark.createDataFrame([], FAIRNESS.schema))
    assert checked.columns == FAIRNESS.names
    assert checked.agg(F.sum("overtaken")).collect()[0][0] == 0
    leaving = summed(spark, root, places=places(evening.events))(ABANDONMENT)
    assert sum(row["gone"] for row in leaving) > 100
    stretched = eta_calibration(every)
    assert stretched.columns == ETA_CALIBRATION.names
    assert all(row["f10"] <= row["f50"] <= row["f90"] for row in stretched.collect())


class Judged(NamedTuple):
    error: float
    covered: float
    by_length: dict[int, float]
    """The share of waits within the range, by how many were ahead."""
    off: float
    """How far those shares are from what they should be, everybody counted alike."""


def judged(rows: list[Any], model: Model) -> Judged:
    errors: list[float] = []
    held = defaultdict[int, list[bool]](list)
    for row in rows:
        wait, ahead = row["waited_s"], row["ahead"]
        if wait < 10 or not row["rate"]:
            continue
        wait_range = Spread.of(model, row["rate"]).wait(ahead + 1)
        errors.append(abs(wait_range.p50 - wait) / wait)
        held[reached(max(1, ahead))].append(wait_range.p10 <= wait <= wait_range.p90)
    shares = {length: sum(each) / len(each) for length, each in sorted(held.items())}
    off = sum(abs(shares[length] - 0.8) * len(each) for length, each in held.items())
    covered = sum(map(sum, held.values()))
    return Judged(sum(errors) / len(errors), covered / len(errors), shares, off / len(errors))


def test_too_few_visits_teach_nothing(spark: SparkSession) -> None:
    empty, now = places(stories.frame(spark, [])), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert list(feedback.wait_models(visits(empty), sessions(empty), now)) == []


@pytest.mark.slow
def test_models_are_learnt_from_the_visits_of_the_last_day_alone(redis_url: str, root: str) -> None:
    rows, history = visitors(random.Random(3)), history_at(root)
    keep(root, rows, 0)
    fold.fold(history)
    now = max(row["at"] for row in rows if row["event"] == "waiting")
    days = {f"date={now.date()}", f"date={(now - feedback.MODEL_WINDOW).date()}"}
    with reads() as read:
        feedback.write_models(history, Store(redis_url), now)
    assert read.keys() <= {VISITS.name, SESSIONS.name}
    assert set[str]() < read[VISITS.name] <= days
    assert len(days) < len({row["date"] for row in rows})


def test_estimates_are_compared_with_the_last_four_weeks_of_each_room(spark: SparkSession) -> None:
    day, went = dt.datetime(2026, 3, 2, tzinfo=dt.UTC), {"ahead": 3, "rate": 1.0, "waited_s": 9.0}
    rows = [
        {"queue": room, "called_at": at, "outcome": "inside", "date": at.date(), **went}
        for room, first in (("sale", 0), ("tour", 200))
        for at in (day + dt.timedelta(days=first + n) for n in (0, 40, 60))
    ]
    given = pa.Table.from_pylist(rows, schema=schema_of(VISITS.schema))
    found = eta_calibration(spark.createDataFrame(given)).collect()
    assert {row["queue"]: row["visits"] for row in found} == {"sale": 2, "tour": 2}


def test_the_line_says_where_its_stream_is() -> None:
    facts = product_named("waitingroom")
    assert facts.streams.key("queue", "{tickets}") == "queue:{tickets}:events"
    tables = (*(each.table for each in facts.folded), *facts.tables)
    assert [table.name for table in tables] == [
        "places",
        "visits",
        "sessions",
        "abandonment_days",
        "funnel",
        "abandonment",
        "eta_calibration",
        "fairness",
    ]


def test_only_the_events_with_which_a_place_begins_name_the_network() -> None:
    # A fold looks for earlier rows of those places alone whose new events do not name it.
    scripts = (SOURCE / "waitingroom" / "redis" / "lua").rglob("*.lua")
    naming = re.compile(r"emit_event\([^)]*'network'")

    assert {each.stem for each in scripts if naming.search(each.read_text())} == {"join", "enter"}
