"""Slots of schedules and routes are brought up to date, and are what a rebuild makes of them."""

import datetime as dt
import random
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.routing_stories import (
    DAY,
    HOUR,
    MINUTE,
    START,
    Told,
    added,
    fired,
    rows,
    schedule_added,
    some_days,
)
from tests.pipeline.test_engines import rows_of
from tests.pipeline.test_rounds import keep, no_spark
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.erasure import retain
from waystation.pipeline.products import product_named
from waystation.pipeline.products.cron_slots import CRON_SLOTS, FIRED_SLOTS, SCHEDULES
from waystation.pipeline.products.routed_jobs import ROUTE_DAYS, ROUTED_JOBS, routes
from waystation.pipeline.refresh.cron_days import refresh_slots
from waystation.pipeline.refresh.day_tables import refresh_days
from waystation.pipeline.refresh.subjects import fold_subjects
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.sql import to_arrow
from waystation.pipeline.tables import EVENTS, Table

TABLES = (ROUTED_JOBS, ROUTE_DAYS, FIRED_SLOTS, SCHEDULES, CRON_SLOTS)


def tables_at(root: str) -> dict[str, list[Any]]:
    return {table.name: rows_of(root, table) for table in TABLES}


def versions_at(root: str) -> dict[str, int | None]:
    return {table.name: changes.version(table.path(root)) for table in TABLES}


def refresh(history: History, *, everything: bool = False) -> None:
    """What a round does for these tables."""
    newest = changes.version(EVENTS.path(history.root))
    assert newest is not None
    facts = product_named("routing")
    for folded in facts.folded:
        fold_subjects(history, folded, newest)
    for by_day in facts.by_day:
        refresh_days(history, by_day, everything=everything)
    refresh_slots(history, everything=everything)


def rounds(root: str, *parts: list[Told]) -> History:
    """A history after a round over each of these."""
    history = History(no_spark, root)
    for batch, part in enumerate(parts):
        keep(root, rows(part), batch)
        refresh(history)
    return history


def assert_rebuilt(root: str) -> None:
    """The tables are those that all events give at once."""
    at_once = f"{root}-at-once"
    for batch, day in enumerate(sorted(delta.days_of(EVENTS.path(root)))):
        told = delta.read_arrow(root, EVENTS, EVENTS.names, days=[day])
        delta.save(told, at_once, EVENTS, BatchId("bronze-test", batch))
    refresh(History(no_spark, at_once))
    assert tables_at(root) == tables_at(at_once)


def verdicts(root: str, schedule: str = "c") -> dict[int, str]:
    """The verdict about each slot, by its minutes from the start."""
    found = delta.read_arrow(root, CRON_SLOTS, ("schedule", "slot", "verdict")).to_pylist()
    mine = (row for row in found if row["schedule"] == schedule)
    return {round((row["slot"] - START).total_seconds() / 60): row["verdict"] for row in mine}


def cut(dice: random.Random, told: list[Any], parts: int) -> list[list[Any]]:
    cuts = [0, *sorted(dice.choices(range(len(told) + 1), k=parts - 1)), len(told)]
    return [told[first:last] for first, last in pairwise(cuts)]


@pytest.mark.parametrize("seed", range(6))
def test_rounds_over_parts_of_a_stream_give_the_tables_of_all_events_at_once(
    root: str, seed: int
) -> None:
    dice = random.Random(seed)
    history = History(no_spark, root)
    for batch, part in enumerate(cut(dice, some_days(dice), 6)):
        keep(root, part, batch)
        refresh(history)
    found = tables_at(root)
    assert all(found.values())
    versions = versions_at(root)
    refresh(history)
    assert versions_at(root) == versions
    refresh(history, everything=True)
    assert tables_at(root) == found
    assert_rebuilt(root)


def test_both_engines_give_the_same_tables_round_by_round(spark: SparkSession, root: str) -> None:
    dice = random.Random(7)
    told = some_days(dice, jobs=30)
    parts = cut(dice, told, 3)
    there, here = History(spark, root, spark_from=0), History(no_spark, f"{root}-here")
    for batch, part in enumerate(parts):
        for history in (there, here):
            keep(history.root, part, batch)
            refresh(history)
        assert tables_at(root) == tables_at(here.root)
    with_spark = to_arrow(routes(there.read(ROUTE_DAYS))).to_pylist()
    without = routes(delta.read_arrow(root, ROUTE_DAYS, ROUTE_DAYS.names)).to_pylist()
    assert sorted(with_spark, key=str) == sorted(without, key=str)


def test_a_round_killed_after_any_commit_is_finished_by_the_next(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(11)
    history = History(no_spark, root)
    first, second, third = cut(dice, some_days(dice), 3)
    keep(root, first, 0)
    refresh(history)
    keep(root, second, 1)
    replace_days, killed = delta.replace_days, list[str]()

    def killed_after(root: str, table: Table, *more: Any) -> None:
        replace_days(root, table, *more)
        killed.append(table.name)
        if killed.count(table.name) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(delta, "replace_days", killed_after)
        for _ in (ROUTED_JOBS, FIRED_SLOTS, ROUTE_DAYS, CRON_SLOTS, SCHEDULES):
            with pytest.raises(KeyboardInterrupt):
                refresh(history)
        refresh(history)
    names = (ROUTED_JOBS.name, FIRED_SLOTS.name, ROUTE_DAYS.name, CRON_SLOTS.name, SCHEDULES.name)
    assert tuple(dict.fromkeys(killed)) == names
    keep(root, third, 2)
    refresh(history)
    assert_rebuilt(root)


def test_a_schedule_that_has_had_more_slots_than_fit_in_memory_is_still_expected_to_fire(
    root: str,
) -> None:
    today = 80 * DAY
    firings = [fired(today + n * MINUTE, "c", today + n * MINUTE) for n in range(3)]
    rounds(root, [schedule_added(0, "c", "* * * * *")], firings)
    found = verdicts(root)
    assert len(found) == 80 * 24 * 60 + 2
    assert [found[80 * 24 * 60 + n] for n in range(3)] == ["on time"] * 3
    assert set(found.values()) == {"on time", "missed"}


def test_slots_of_hours_without_any_event_are_missed(root: str) -> None:
    day = 24 * 60
    rounds(
        root,
        [schedule_added(0, "c", "0 */6 * * *"), fired(80 * MINUTE, "c", 80 * MINUTE)],
        [added(3 * DAY, "j1")],
    )
    found = verdicts(root)
    assert found == {80: "on time", **{80 + n * 360: "missed" for n in range(1, 12)}}
    assert max(found) < 3 * day


def added_again(at_ms: int) -> list[Told]:
    return [added(at_ms, "c", "report"), schedule_added(at_ms, "c", "0 * * * *")]


def test_a_cancelled_schedule_expects_no_slots_until_it_is_added_again(root: str) -> None:
    rounds(
        root,
        [*added_again(0), added(5 * HOUR, "j1")],
        # Another stream was read later.
        [Told(2 * HOUR, "report", "c", "cancelled"), Told(5 * HOUR, "mail", "j1", "cancelled")],
        [*added_again(6 * HOUR), added(8 * HOUR, "j2")],
    )
    # The start is at 22:40.
    assert verdicts(root) == dict.fromkeys((20, 80, 380, 440), "missed")
    found = delta.read_arrow(root, SCHEDULES, ("schedule", "added_at", "ended_at")).to_pylist()
    assert sorted((row["added_at"], row["ended_at"]) for row in found) == [
        (START, START + dt.timedelta(hours=2)),
        (START + dt.timedelta(hours=6), None),
    ]
    assert_rebuilt(root)


def test_only_the_days_are_computed_again_that_have_changed(root: str) -> None:
    history = rounds(
        root,
        [schedule_added(0, "c", "0 12 * * *"), added(0, "j1")],
        [added(20 * DAY, "j2")],
    )
    version = changes.version(CRON_SLOTS.path(root))
    late = 3 * DAY - (22 * HOUR + 40 * MINUTE) + 12 * HOUR
    keep(root, rows([fired(20 * DAY + HOUR, "c", late)]), 2)
    refresh(history)
    now = changes.version(CRON_SLOTS.path(root))
    assert now is not None
    days = changes.changed_days(CRON_SLOTS.path(root), after=version, until=now)
    assert days == [(START + n * dt.timedelta(days=1)).date() for n in (3, 20)]
    assert verdicts(root)[late // MINUTE] == "late"


def test_a_schedule_that_nobody_can_read_does_not_stop_a_refresh(root: str) -> None:
    readable, slot = schedule_added(0, "c", "0 * * * *"), fired(HOUR, "c", HOUR)
    broken = readable._replace(fields={**readable.fields, "cron": "every now and then"})
    future = slot._replace(fields={**slot.fields, "slot": "9" * 18})
    rounds(root, [broken, future, slot])
    assert verdicts(root) == {20: "missed", 60: "unexpected"}


def test_a_first_slot_of_long_ago_is_not_expected_ever_since(root: str) -> None:
    rounds(root, [schedule_added(0, "c", "0 * * * *", first_ms=-9000 * DAY), added(HOUR, "j1")])
    assert set(verdicts(root)) == {20}


def test_a_schedule_is_known_when_its_events_are_older_than_what_is_kept(root: str) -> None:
    history = rounds(
        root,
        [schedule_added(0, "c", "0 12 * * *"), schedule_added(0, "d", "0 12 * * *")],
        [Told(2 * DAY, "report", "d", "cancelled"), added(2 * DAY, "j1")],
        [added(20 * DAY, "j2")],
    )
    first = START.date() + dt.timedelta(days=15)
    retain(history, first)
    noon = 20 * DAY - (22 * HOUR + 40 * MINUTE) + 12 * HOUR
    keep(root, rows([fired(20 * DAY + n * DAY, "c", noon + n * DAY) for n in (0, 1)]), 3)
    refresh(history)
    found = delta.read_arrow(root, CRON_SLOTS, ("schedule", "date", "expected")).to_pylist()
    assert {row["schedule"] for row in found} == {"c"}
    assert min(row["date"] for row in found) == first
    assert all(row["expected"] for row in found)
    jobs = delta.read_arrow(root, ROUTED_JOBS, ("subject",))["subject"].to_pylist()
    assert {"c", "j2"} <= set(jobs)
    assert not {"d", "j1"} & set(jobs)
    before = tables_at(root)
    refresh(history, everything=True)
    assert tables_at(root) == before
    keep(root, rows([Told(22 * DAY, "report", "c", "cancelled")]), 4)
    refresh(history)
    (row,) = delta.read_arrow(root, SCHEDULES, ("schedule", "ended_at")).to_pylist()
    assert row == {"schedule": "c", "ended_at": START + dt.timedelta(days=22)}


def test_an_id_that_is_used_again_is_another_job(root: str) -> None:
    rounds(
        root,
        [
            added(0, "j1", target="gpu"),
            Told(0, "render", "j1", "waiting"),
            Told(1000, "render", "j1", "active", {}, "w1"),
        ],
        [
            Told(2000, "render", "j1", "completed", {}, "w1"),
            added(2 * DAY, "j1", target="gpu"),
            Told(2 * DAY, "render", "j1", "waiting"),
        ],
        [Told(2 * DAY + 1, "", "w2", "joined", {}, "w2"), added(3 * DAY, "j2", target="eu")],
    )
    found = routes(delta.read_arrow(root, ROUTE_DAYS, ROUTE_DAYS.names)).to_pylist()
    (route,) = (row for row in found if row["target"] == "gpu")
    assert (route["added"], route["started"], route["waiting"]) == (2, 1, 1)
    assert (route["workers"], route["wait_ms"], route["unserved"]) == (1, 1000, False)
    assert route["head_ms"] == DAY
    assert_rebuilt(root)
