"""The answers equal what counting by hand gives."""

import datetime as dt
import math
import random
from typing import Any

import pytest

from tests.pipeline import oracle, stories
from tests.pipeline.rounds import history_at, keep, refresh, rows_of
from tests.pipeline.stories import StoryEvent
from waystation.core.errors import TablesDisagree
from waystation.pipeline.gold.cells import CELLS, HOUR, MOST_KINDS, OTHER
from waystation.pipeline.histograms import percentile, summed
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.rebuild import backfill
from waystation.pipeline.refresh import checks, quality
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import CAPACITY, FAILURES, HOURLY, LEDGER, WORKERS, Table

COUNTS = ("added", "started", "completed", "failed", "retried", "stalled")


KINDS = 300
HOUR_MS = 3_600_000 - 40 * 60_000
"""The first full hour after the start of the stories."""


def runs(queue: str, at_ms: int, job: str) -> list[StoryEvent]:
    """A job that is run at once, for a second."""
    steps = [(0, "added"), (0, "waiting"), (0, "active"), (1_000, "completed")]
    return [StoryEvent(at_ms + ms, queue, job, event, worker="ada") for ms, event in steps]


def fails(at_ms: int, job: str, first: str, second: str) -> list[StoryEvent]:
    """A job that fails with one error, is tried again, and fails with another."""
    ends = [("retry", first), ("active", ""), ("failed", second)]
    steps = [("added", ""), ("active", ""), *ends]
    return [
        StoryEvent(at_ms + ms, "kinds", job, event, fields={"failedReason": why} if why else {})
        for ms, (event, why) in enumerate(steps)
    ]


def unlike(number: int) -> str:
    """An error that nothing can tell from others: a kind of its own."""
    return "no such city: " + "".join("aeiou"[number // 5**place % 5] for place in range(12))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Two hundred jobs in all fates, a hundred all at once and over an hour, and many errors."""
    events = stories.random_events(random.Random(23), 250)
    for number in range(100):
        events += runs("burst", HOUR_MS, str(number))
        events += runs("even", HOUR_MS + number * 36_000, str(number))
    for number in range(KINDS):
        events += fails(number * 1_000, str(number), unlike(2 * number), unlike(2 * number + 1))
    for number in range(25):
        events += fails(number * 1_000, f"c{number}", "card was refused", "card was refused")
    return stories.rows(sorted(events, key=lambda each: (each.at_ms, each.queue)))


@pytest.fixture(scope="module")
def history(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> History:
    """A history that two batches made, answered after each."""
    root = str(tmp_path_factory.mktemp("history"))
    half = len(rows) // 2
    for batch, part in enumerate((rows[:half], rows[half:])):
        keep(root, [{**row, "fields": list(row["fields"].items())} for row in part], batch)
        refresh(history_at(root))
    return history_at(root)


def read(history: History, table: Table) -> list[dict[str, Any]]:
    return delta.read_arrow(history.root, table, table.names).to_pylist()


def test_hourly_counts_what_a_loop_over_the_events_counts(
    history: History, rows: list[dict[str, Any]]
) -> None:
    found = {
        (row["queue"], row["hour"]): {name: row[name] for name in COUNTS}
        for row in read(history, HOURLY)
    }
    assert found == oracle.hourly(rows)


def test_percentiles_are_those_of_the_waits(history: History, rows: list[dict[str, Any]]) -> None:
    waits = sorted(
        (each.started - each.ready) // dt.timedelta(milliseconds=1)
        for each in oracle.attempts(rows)
        if each.ready is not None
    )
    hours = delta.read_arrow(history.root, HOURLY, ("wait_histogram",))
    together = summed(hours["wait_histogram"].to_pylist())
    assert sum(many for _, many in together) == len(waits)
    for part in (0.5, 0.95, 0.99):
        exact = waits[math.ceil(part * len(waits)) - 1]
        assert percentile(together, part) == pytest.approx(exact, rel=0.01)


def test_a_histogram_without_values_has_no_percentile() -> None:
    assert percentile(summed([None, []]), 0.5) is None


def test_failures_are_kinds_and_say_whether_trying_again_helped(history: History) -> None:
    found = {row["signature"]: row for row in read(history, FAILURES) if row["queue"] == "q0"}
    refused, silent = found["card <n> refused"], found["TimeoutError: no answer after <n> ms"]
    assert silent["error_class"] == "TimeoutError"
    assert silent["retry_helps"] == pytest.approx(silent["recovered"] / silent["jobs"], abs=0.05)
    # Only those that began again by hand.
    assert 0 < refused["retried"] < refused["attempts"] / 2
    assert refused["retry_helps"] == refused["recovered"] / refused["retried"]
    assert len(refused["examples"]) == 5


def test_only_the_most_frequent_kinds_have_a_row_and_every_failure_is_counted(
    history: History,
) -> None:
    found = [row for row in read(history, FAILURES) if row["queue"] == "kinds"]
    assert len(found) == MOST_KINDS + 1
    assert sum(row["attempts"] for row in found) == 2 * KINDS + 50
    (other,) = (row for row in found if row["fingerprint"] == OTHER)
    left = 2 * KINDS - (MOST_KINDS - 1)
    # Two of them hit the same job, which is counted for each.
    assert (other["kinds"], other["attempts"], other["jobs"]) == (left, left, left)
    (often,) = (row for row in found if row["signature"] == "card was refused")
    assert (often["kinds"], often["attempts"], often["jobs"]) == (1, 50, 25)
    assert often["examples"] == sorted(f"c{number}" for number in range(25))[:5]


def test_a_ledger_without_a_look_does_not_pretend_to_know(history: History) -> None:
    assert {(row["lost"], row["clean"]) for row in read(history, LEDGER)} == {(None, None)}


def test_every_table_passes_its_count(history: History) -> None:
    found = quality.last_checks(history.root)
    assert {check.table for check in found} >= {"attempts", "items", "workers", "hourly"}
    assert [check for check in found if not check.passed] == []


def test_a_count_that_is_off_is_named(root: str) -> None:
    events = stories.rows(
        [StoryEvent(0, "mail", "1", "added"), StoryEvent(1, "mail", "1", "active")]
    )
    keep(root, [{**row, "fields": []} for row in events], 0)
    folded = fold(history_at(root))
    assert folded is not None
    # Gold has not counted it.
    checks.refresh_quality(history_at(root), folded.hours)
    found = {check.table: check for check in quality.last_checks(root)}
    assert found["hourly"].passed
    assert (found["attempts"].wanted, found["attempts"].found) == (0, 1)
    assert not found["attempts"].passed
    with pytest.raises(TablesDisagree, match=r"attempts: one for each claim.*rebuild"):
        quality.require_consistent([str(check) for check in found.values() if not check.passed])


def test_workers_and_capacity_have_a_row_for_each_hour_worked(
    history: History, rows: list[dict[str, Any]]
) -> None:
    tried = [each for each in oracle.attempts(rows) if each.worker is not None]
    assert sum(row["attempts"] for row in read(history, WORKERS)) == len(tried)
    assert any((row["workers_needed"] or 0) >= 1 for row in read(history, CAPACITY))


def test_a_burst_asks_for_more_workers_than_the_same_jobs_over_an_hour(history: History) -> None:
    """A hundred jobs of a second each, all at once in one queue and over an hour in the other."""
    found = {row["queue"]: row for row in read(history, CAPACITY) if row["arrivals_per_s"]}
    assert found["burst"]["busiest_per_s"] == pytest.approx(100 / 60)
    assert found["burst"]["workers_needed"] >= 48
    assert found["even"]["workers_needed"] <= 2


@pytest.mark.slow
def test_an_hour_of_a_queue_is_one_row_of_sums_however_full_it_is(history: History) -> None:
    hours = [row for row in read(history, CELLS) if row["kind"] == HOUR.name]
    assert len(hours) == len({(row["queue"], row["at"]) for row in hours})
    for queue, buckets in (("burst", [100]), ("even", [1] * 100)):
        (parts,) = (row["parts"] for row in hours if row["queue"] == queue)
        assert [each["many"] for each in parts if each["part"] == "ready"] == buckets


def test_answers_made_again_are_the_same(history: History) -> None:
    before = rows_of(history.root, HOURLY)
    day = stories.START.date()
    backfill(history, day, day + dt.timedelta(days=1))
    assert rows_of(history.root, HOURLY) == before
