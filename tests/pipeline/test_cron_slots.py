"""Slots of schedules and routes: what became of each, round after round."""

import datetime as dt
from typing import Any, NamedTuple

import pytest

from tests.pipeline.rounds import history_at, keep, refresh, rows_of
from tests.pipeline.routing_stories import (
    DAY,
    HOUR,
    MINUTE,
    START,
    RoutingEvent,
    added,
    fired,
    rows,
    schedule_added,
)
from waystation.pipeline.maintenance.erasure import retain
from waystation.pipeline.maintenance.rebuild import rebuild, refresh_all
from waystation.pipeline.products import cron_slots
from waystation.pipeline.products.cron_slots import CRON_SLOTS, FIRED_SLOTS, SCHEDULES
from waystation.pipeline.products.routing import ROUTE_DAYS, ROUTED_JOBS, ROUTES
from waystation.pipeline.storage import delta, table_log

pytestmark = pytest.mark.slow

TABLES = (ROUTED_JOBS, ROUTE_DAYS, FIRED_SLOTS, SCHEDULES, CRON_SLOTS)
NOON = 3 * DAY - (22 * HOUR + 40 * MINUTE) + 12 * HOUR
"""Of the third day; the start is at 22:40."""
_readable, _slot = schedule_added(0, "broken", "0 * * * *"), fired(HOUR, "broken", HOUR)


def again(at_ms: int) -> list[RoutingEvent]:
    """A schedule is added under an id that another one may have had."""
    return [added(at_ms, "again", "report"), schedule_added(at_ms, "again", "0 * * * *")]


CASES: dict[str, list[list[RoutingEvent]]] = {
    "minutely": [
        [schedule_added(0, "minutely", "* * * * *")],
        [fired(2 * DAY + n * MINUTE, "minutely", 2 * DAY + n * MINUTE) for n in range(3)],
    ],
    "quiet": [
        [schedule_added(0, "quiet", "0 */6 * * *"), fired(80 * MINUTE, "quiet", 80 * MINUTE)],
        [added(3 * DAY, "j1")],
    ],
    "again": [
        [*again(0), added(5 * HOUR, "j3")],
        # Another stream was read later.
        [
            RoutingEvent(2 * HOUR, "report", "again", "cancelled"),
            RoutingEvent(5 * HOUR, "mail", "j3", "cancelled"),
        ],
        again(6 * HOUR),
    ],
    "late": [
        [schedule_added(0, "late", "0 12 * * *")],
        [added(20 * DAY, "j2")],
        [fired(20 * DAY + HOUR, "late", NOON)],
    ],
    "broken": [
        [
            _readable._replace(fields={**_readable.fields, "cron": "every now and then"}),
            _slot._replace(fields={**_slot.fields, "slot": "9" * 18}),
            _slot,
        ]
    ],
    "long ago": [[schedule_added(0, "long ago", "0 * * * *", first_ms=-9000 * DAY)]],
    "ended": [
        [schedule_added(0, "ended", "0 12 * * *")],
        [RoutingEvent(2 * DAY, "report", "ended", "cancelled")],
    ],
    "an id used again": [
        [
            added(0, "twice", target="tpu"),
            RoutingEvent(0, "render", "twice", "waiting"),
            RoutingEvent(1000, "render", "twice", "active", {}, "w1"),
        ],
        [
            RoutingEvent(2000, "render", "twice", "completed", {}, "w1"),
            added(19 * DAY, "twice", target="tpu"),
            RoutingEvent(19 * DAY, "render", "twice", "waiting"),
        ],
        [RoutingEvent(2 * DAY + 1, "", "w2", "joined", {}, "w2")],
    ],
}
"""The events of three rounds, of a schedule or of a job that is named by it."""
KEPT = START.date() + dt.timedelta(days=15)


class Ran(NamedTuple):
    """What was seen of the histories of all cases together."""

    found: dict[str, list[Any]]
    """The tables after the rounds."""
    rebuilt: dict[str, list[Any]]
    slots: list[dict[str, Any]]
    schedules: list[dict[str, Any]]
    routes: list[dict[str, Any]]
    retained: dict[str, list[Any]]
    """The tables after days were deleted, and one more round."""
    refreshed: dict[str, list[Any]]
    """The same after all of gold was computed again."""
    kept_slots: list[dict[str, Any]]
    kept_jobs: set[str]
    ended: list[dict[str, Any]]
    """The schedules after one was cancelled."""
    days: list[dt.date] | None
    """Days of slots that this last round has computed."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = str(tmp_path_factory.mktemp("history"))
    history = history_at(root)
    with pytest.MonkeyPatch.context() as patch:
        # Fewer than the cases have, so that they are written in parts.
        patch.setattr(cron_slots, "AT_ONCE", 10_000)
        for turn in range(3):
            version = table_log.version(CRON_SLOTS.path(root))
            events = [
                each for parts in CASES.values() for part in parts[turn : turn + 1] for each in part
            ]
            keep(root, rows(events), turn)
            refresh(history)
    found, slots = tables_at(root), read(root, CRON_SLOTS)
    schedules, routes = read(root, SCHEDULES), read(root, ROUTES)
    rebuild(history)
    rebuilt = tables_at(root)

    retain(history, KEPT)
    late = 17 * DAY + NOON
    keep(root, rows([fired(20 * DAY + n * DAY, "late", late + n * DAY) for n in (0, 1)]), 3)
    refresh(history)
    retained, kept_slots = tables_at(root), read(root, CRON_SLOTS)
    kept_jobs = {row["job_id"] for row in read(root, ROUTED_JOBS)}
    refresh_all(history)
    refreshed = tables_at(root)
    version = table_log.version(CRON_SLOTS.path(root))
    keep(root, rows([RoutingEvent(22 * DAY, "report", "late", "cancelled")]), 4)
    refresh(history)
    now = table_log.version(CRON_SLOTS.path(root)) or 0
    days = table_log.changed_days(CRON_SLOTS.path(root), after=version, until=now)
    return Ran(
        found,
        rebuilt,
        slots,
        schedules,
        routes,
        retained,
        refreshed,
        kept_slots,
        kept_jobs,
        read(root, SCHEDULES),
        days,
    )


def tables_at(root: str) -> dict[str, list[Any]]:
    return {table.name: rows_of(root, table) for table in TABLES}


def read(root: str, table: Any) -> list[dict[str, Any]]:
    return delta.read_arrow(root, table, table.names).to_pylist()


def verdicts(ran: Ran, schedule: str, *, until: int) -> dict[int, str]:
    """The verdict about each slot up to an instant, by its minutes from the start."""
    mine = (row for row in ran.slots if row["schedule"] == schedule)
    found = {round((row["slot"] - START).total_seconds() / 60): row["verdict"] for row in mine}
    return {minute: verdict for minute, verdict in found.items() if minute * MINUTE <= until}


def test_a_rebuild_gives_the_tables_of_the_rounds(ran: Ran) -> None:
    assert all(ran.found.values())
    assert ran.found == ran.rebuilt


def test_a_schedule_with_more_slots_than_fit_in_memory_is_still_expected_to_fire(ran: Ran) -> None:
    first = 2 * 24 * 60
    found = verdicts(ran, "minutely", until=2 * DAY + 2 * MINUTE)
    assert len(found) == first + 2
    assert [found[first + n] for n in range(3)] == ["on time"] * 3
    assert set(found.values()) == {"on time", "missed"}


def test_slots_of_hours_without_any_event_are_missed(ran: Ran) -> None:
    found = verdicts(ran, "quiet", until=3 * DAY)
    assert found == {80: "on time", **{80 + n * 360: "missed" for n in range(1, 12)}}


def test_a_cancelled_schedule_expects_no_slots_until_it_is_added_again(ran: Ran) -> None:
    found = verdicts(ran, "again", until=8 * HOUR)
    assert found == dict.fromkeys((20, 80, 380, 440), "missed")
    mine = [row for row in ran.schedules if row["schedule"] == "again"]
    assert sorted((row["added_at"], row["ended_at"]) for row in mine) == [
        (START, START + dt.timedelta(hours=2)),
        (START + dt.timedelta(hours=6), None),
    ]


def test_only_the_days_are_computed_again_that_have_changed(ran: Ran) -> None:
    assert ran.days == [START.date() + dt.timedelta(days=n) for n in (21, 22)]


def test_a_slot_that_is_fired_days_after_it_was_due_is_late(ran: Ran) -> None:
    assert verdicts(ran, "late", until=20 * DAY)[NOON // MINUTE] == "late"


def test_a_schedule_that_nobody_can_read_does_not_stop_a_refresh(ran: Ran) -> None:
    assert verdicts(ran, "broken", until=HOUR) == {20: "missed", 60: "unexpected"}


def test_a_first_slot_of_long_ago_is_not_expected_ever_since(ran: Ran) -> None:
    assert set(verdicts(ran, "long ago", until=HOUR)) == {20}


def test_a_schedule_is_known_when_its_events_are_older_than_what_is_kept(ran: Ran) -> None:
    mine = [row for row in ran.kept_slots if row["schedule"] in ("late", "ended")]
    assert {row["schedule"] for row in mine} == {"late"}
    assert min(row["date"] for row in mine) == KEPT
    assert all(row["expected"] for row in mine)
    assert {"late", "j2"} <= ran.kept_jobs
    assert not {"ended", "j1"} & ran.kept_jobs
    assert ran.refreshed == ran.retained
    (row,) = (row for row in ran.ended if row["schedule"] == "late")
    assert row["ended_at"] == START + dt.timedelta(days=22)


def test_an_id_that_is_used_again_is_another_job(ran: Ran) -> None:
    (route,) = (row for row in ran.routes if row["target"] == "tpu")
    assert (route["added"], route["started"], route["waiting"]) == (2, 1, 1)
    assert (route["workers"], route["wait_ms"], route["unserved"]) == (1, 1000, False)
    assert route["head_ms"] == DAY
