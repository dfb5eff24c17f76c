"""What the history says of tenants who take turns is what a plain count of their events gives."""

import datetime as dt
import math
import random
import statistics
from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

import pytest

from tests.pipeline import stories
from tests.pipeline.rounds import history_at, in_parts, keep, refresh, tables_at
from tests.pipeline.stories import StoryEvent
from tests.pipeline.turn_stories import in_turns
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.products.bullmq import TENANTS, TURNS
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_ITEMS
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import ATTEMPTS, ITEMS, Table

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
NAMES = ("queue", "job_id", "started_at", "weight", "free_at", "group", "cost", "ready_at")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def events() -> list[StoryEvent]:
    dice = random.Random(35)
    every = [
        *in_turns(dice, 400, queue="fair"),
        *in_turns(dice, 400, queue="charged", charges=0.2),
        *in_turns(dice, 400, queue="unfair", is_fair=False),
        *stories.random_events(dice, 30),
    ]
    return sorted(every, key=lambda each: each.at_ms)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, events: list[StoryEvent]) -> str:
    """A history that some rounds have made of these events."""
    root = str(tmp_path_factory.mktemp("history"))
    rows = [{**row, "fields": list(row["fields"].items())} for row in stories.rows(events)]
    for batch, part in enumerate(in_parts(random.Random(4), rows, 3)):
        keep(root, part, batch)
        refresh(history_at(root))
    return root


def read(root: str, *tables: Table) -> Rows:
    return [row for each in tables for row in delta.read_arrow(root, each, each.names).to_pylist()]


def attempts_in(events: list[StoryEvent]) -> Rows:
    """What is known of the group and the cost of each attempt, counted one event at a time."""
    found: Rows = []
    jobs: dict[tuple[str, str], dict[str, Any]] = {}
    for each in events:
        said, whose = each.fields, (each.queue, each.subject)
        job = jobs.setdefault(whose, {"group": None, "cost": None, "ready": None})
        if each.event == "added":
            job = jobs[whose] = {"group": None, "cost": None, "ready": None}
        job["group"] = said.get("group") or job["group"]
        job["cost"] = float(said["cost"]) if "cost" in said else job["cost"]
        at = stories.START + dt.timedelta(milliseconds=each.at_ms)
        if each.event == "active":
            free = EPOCH + dt.timedelta(milliseconds=int(said.get("free", 0)))
            is_free = "free" in said and job["ready"]
            job["attempt"] = {
                "queue": each.queue,
                "job_id": each.subject,
                "started_at": at,
                "weight": float(said["weight"]) if "weight" in said else None,
                "free_at": max(job["ready"], free) if is_free else None,
                **{name: job[name] for name in ("group", "cost", "ready")},
            }
            found.append(job["attempt"])
            job["ready"] = None
        elif each.event in ("added", "waiting", "retry", "stalled"):
            job["ready"] = at
        elif each.event == "charged":
            job["attempt"]["cost"] = job["cost"]
    return found


def test_attempts_have_the_group_the_cost_and_the_turn_that_their_events_say(
    root: str, events: list[StoryEvent]
) -> None:
    wanted = sorted((*row.values(),) for row in attempts_in(events))
    found = read(root, ATTEMPTS, OPEN_ATTEMPTS)
    assert sorted(tuple(row[name] for name in NAMES) for row in found) == wanted
    assert {row["group"] for row in found} > {None, "acme/ada", "bell"}


def test_a_job_has_its_group_and_what_its_attempts_cost_in_all(
    root: str, events: list[StoryEvent]
) -> None:
    groups, costs = dict[Any, Any](), dict[Any, float]()
    for row in attempts_in(events):
        if row["queue"] in ("fair", "charged", "unfair"):
            whose = row["queue"], row["job_id"]
            groups[whose] = row["group"]
            costs[whose] = costs.get(whose, 0) + row["cost"]
    items = {(row["queue"], row["job_id"]): row for row in read(root, ITEMS, OPEN_ITEMS)}
    assert {whose: items[whose]["group"] for whose in groups} == groups
    assert {whose: items[whose]["cost"] for whose in costs} == costs


def test_an_attempt_ends_when_the_job_ends_and_not_when_it_says_what_it_costs(root: str) -> None:
    rows = read(root, ATTEMPTS)
    assert {row["outcome"] for row in rows if row["queue"] == "charged"} == {"completed", "retried"}
    assert all(row["run_ms"] >= 200 for row in rows if row["queue"] == "charged")


def tenant_of(group: str | None) -> str:
    return (group or "").partition("/")[0]


def hour(at: dt.datetime) -> dt.datetime:
    return at.replace(minute=0, second=0, microsecond=0)


class Counted:
    """What a tenant was served in an hour, counted one event at a time."""

    def __init__(self) -> None:
        self.costs: list[tuple[int, float, float]] = []
        """Of each start and correction the second of the hour, the cost and the weight."""
        self.waits: list[float] = []
        self.largest = 0.0
        self.is_corrected = False

    @property
    def service(self) -> float:
        return sum(cost for _, cost, _ in self.costs)

    def served(self, first: int, last: int) -> float:
        """What it was served in some slots, over its weight."""
        return sum(cost / weight for s, cost, weight in self.costs if first <= s // 10 < last)


Whose = tuple[str, dt.datetime, str]


def tenants_in(events: list[StoryEvent]) -> dict[Whose, Counted]:
    found: dict[Whose, Counted] = defaultdict(Counted)
    for each in events:
        said, at = each.fields, stories.START + dt.timedelta(milliseconds=each.at_ms)
        if "weight" in said:
            mine = found[each.queue, hour(at), tenant_of(said.get("group"))]
            cost = float(said["cost" if each.event == "active" else "more"])
            mine.costs.append((int((at - hour(at)).total_seconds()), cost, float(said["weight"])))
            mine.is_corrected |= each.event == "charged"
            if each.event == "active":
                mine.largest = max(mine.largest, cost / float(said["weight"]))
    for row in attempts_in(events):
        if row["weight"] and row["ready"]:
            mine = found[row["queue"], hour(row["started_at"]), tenant_of(row["group"])]
            mine.waits.append((row["started_at"] - row["ready"]) / dt.timedelta(milliseconds=1))
    return found


def test_each_tenant_has_what_it_was_served_and_how_long_it_waited(
    root: str, events: list[StoryEvent]
) -> None:
    wanted = {whose: each for whose, each in tenants_in(events).items() if each.costs}
    rows = {(row["queue"], row["hour"], row["tenant"]): row for row in read(root, TENANTS)}
    assert {whose for whose, row in rows.items() if row["service"]} == wanted.keys()
    totals: dict[tuple[str, dt.datetime], float] = defaultdict(float)
    for whose, each in wanted.items():
        totals[whose[:2]] += each.service
    for whose, each in wanted.items():
        row = rows[whose]
        assert row["started"] == len(each.waits)
        assert row["service"] == pytest.approx(each.service)
        assert row["over_weight"] == pytest.approx(each.served(0, 360))
        assert row["share"] == pytest.approx(each.service / totals[whose[:2]])
        assert row["wait_mean_ms"] == pytest.approx(statistics.mean(each.waits))
        assert row["wait_p95_ms"] == pytest.approx(at_95(each.waits), rel=0.01, abs=1)


def at_95(values: list[float]) -> float:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def waited_in(events: list[StoryEvent]) -> dict[Whose, set[int]]:
    """The slots of each hour throughout which a tenant waited for nothing but its turn."""
    attempts = [row for row in attempts_in(events) if row["weight"]]
    starts = Counter(slot_of(row, row["started_at"]) for row in attempts)
    waiting = Counter[tuple[str, str, int]]()
    for row in attempts:
        if row["free_at"]:
            first = max(row["free_at"], row["started_at"] - dt.timedelta(hours=1))
            queue, tenant, slot = slot_of(row, first)
            for each in range(slot + 1, slot_of(row, row["started_at"])[-1] + 1):
                waiting[queue, tenant, each] += 1
    found: dict[Whose, set[int]] = defaultdict(set)
    for (queue, tenant, slot), many in waiting.items():
        if many > starts[queue, tenant, slot]:
            at = EPOCH + dt.timedelta(seconds=slot * 10)
            found[queue, hour(at), tenant].add(slot % 360)
    return found


def slot_of(row: dict[str, Any], at: dt.datetime) -> tuple[str, str, int]:
    return row["queue"], tenant_of(row["group"]), int(at.timestamp()) // 10


def furthest(one: Counted, other: Counted, shared: set[int]) -> float:
    """The largest deviation in any stretch of slots that both have waited through."""
    most = 0.0
    for first in shared:
        last = first
        while last in shared:
            last += 1
            most = max(most, abs(one.served(first, last) - other.served(first, last)))
    return most


def test_how_far_tenants_came_apart_is_what_trying_every_stretch_of_time_gives(
    root: str, events: list[StoryEvent]
) -> None:
    counted, waited = tenants_in(events), waited_in(events)
    wanted: dict[tuple[str, dt.datetime], float | None] = {}
    for queue, at in {whose[:2] for whose in counted}:
        mine = [tenant for *of, tenant in waited if of == [queue, at]]
        wanted[queue, at] = max(
            (
                furthest(counted[queue, at, one], counted[queue, at, other], shared)
                for one, other in combinations(mine, 2)
                if (shared := waited[queue, at, one] & waited[queue, at, other])
            ),
            default=None,
        )
    rows = {(row["queue"], row["hour"]): row["deviation"] for row in read(root, TURNS)}
    assert rows == {of: each and pytest.approx(each) for of, each in wanted.items()}
    assert len([each for each in rows.values() if each]) > 2


def test_a_queue_in_turn_keeps_the_bound_and_one_that_ignores_turns_does_not(root: str) -> None:
    held = defaultdict[str, set[bool | None]](set)
    for row in read(root, TURNS):
        held[row["queue"]].add(row["held"])
    assert held["fair"] <= {True, None}
    assert True in held["fair"]
    assert False not in held["charged"]
    assert False in held["unfair"]


def test_jobs_at_a_limit_and_paused_ones_are_not_compared(
    root: str, events: list[StoryEvent]
) -> None:
    rows = read(root, TENANTS)
    assert not any(row["waiting_s"] for row in rows if row["tenant"] == "cole")
    waited = {whose: len(slots) * 10 for whose, slots in waited_in(events).items()}
    for row in rows:
        assert row["waiting_s"] == waited.get((row["queue"], row["hour"], row["tenant"]), 0)


def test_rounds_give_the_tables_of_a_rebuild(root: str) -> None:
    found = tables_at(root)
    rebuild(history_at(root))
    again = tables_at(root)
    assert {name for name in found if found[name] != again[name]} <= {"slots"}
