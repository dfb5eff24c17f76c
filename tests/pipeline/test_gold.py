"""The answers equal what counting by hand gives."""

import datetime as dt
import math
import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.pipeline import oracle, stories
from tests.pipeline.rounds import history_at
from tests.pipeline.stories import StoryEvent
from waystation.core.errors import TablesDisagree
from waystation.pipeline.gold.capacity import capacity
from waystation.pipeline.gold.failures import failures, kinds
from waystation.pipeline.histograms import added, percentile
from waystation.pipeline.history import History, utc
from waystation.pipeline.maintenance.rebuild import backfill
from waystation.pipeline.refresh import checks, gold_tables, quality
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.silver.failed_items import failing
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import CAPACITY, EVENTS, FAILURES, HOURLY, LEDGER, WORKERS

COUNTS = ("added", "started", "completed", "failed", "retried", "stalled")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    return stories.rows(stories.told_about(random.Random(23), 250))


@pytest.fixture(scope="module")
def history(
    spark: SparkSession, rows: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> History:
    """A history that two batches made, answered after each."""
    root = str(tmp_path_factory.mktemp("history"))
    half = len(rows) // 2
    for batch, part in enumerate((rows[:half], rows[half:])):
        events = stories.frame(spark, part)
        delta.save(events, root, EVENTS, BatchId("bronze-test", batch))
        fold(history_at(root))
        gold_tables.refresh(history_at(root))
    return history_at(root)


def test_hourly_counts_what_a_loop_over_the_events_counts(
    history: History, rows: list[dict[str, object]]
) -> None:
    found = {
        (row["queue"], utc(row["hour"])): {name: row[name] for name in COUNTS}
        for row in history.read(HOURLY).collect()
    }
    assert found == oracle.hourly(rows)


def test_percentiles_are_those_of_the_waits(
    history: History, rows: list[dict[str, object]]
) -> None:
    waits = sorted(
        (each.started - each.ready) // dt.timedelta(milliseconds=1)
        for each in oracle.attempts(rows)
        if each.ready is not None
    )
    hours = delta.read_arrow(history.root, HOURLY, ("wait_histogram",))
    together = added(hours["wait_histogram"].to_pylist())
    assert sum(many for _, many in together) == len(waits)
    for part in (0.5, 0.95, 0.99):
        exact = waits[math.ceil(part * len(waits)) - 1]
        assert percentile(together, part) == pytest.approx(exact, rel=0.01)


def test_a_histogram_without_values_has_no_percentile() -> None:
    assert percentile(added([None, []]), 0.5) is None


def test_failures_are_kinds_and_say_whether_trying_again_helped(history: History) -> None:
    found = {
        row["signature"]: row for row in history.read(FAILURES).collect() if row["queue"] == "q0"
    }
    refused, silent = found["card <n> refused"], found["TimeoutError: no answer after <n> ms"]
    assert silent["error_class"] == "TimeoutError"
    assert silent["retry_helps"] == pytest.approx(
        silent["recovered"] / silent["subjects"], abs=0.05
    )
    # Only those that began again by hand.
    assert 0 < refused["retried"] < refused["attempts"] / 2
    assert refused["retry_helps"] == refused["recovered"] / refused["retried"]
    assert len(refused["examples"]) == 5


def test_only_the_most_frequent_kinds_have_a_row_and_every_failure_is_counted(
    spark: SparkSession,
) -> None:
    at = stories.START
    seen = {"a": 5, "b": 3, "c": 1, "d": 1}
    rows = [
        ("bullmq", "mail", f"{number % 2}", 1, 1, kind, kind, None, "failed", at)
        for kind, many in seen.items()
        for number in range(many)
    ]
    rows.append(("bullmq", "sms", "9", 1, 1, "c", "c", None, "failed", at))
    columns = (
        "line string, queue string, subject string, life long, attempt long, fingerprint string"
    )
    tried = spark.createDataFrame(
        rows,
        f"{columns}, reason string, error_class string, outcome string, started_at timestamp",
    )
    found = {
        (row["queue"], row["fingerprint"]): (row["attempts"], row["subjects"], row["kinds"])
        for row in failures(kinds(failing(tried)), most=2).to_pylist()
    }
    assert found == {
        ("mail", "a"): (5, 2, 1),
        ("mail", "b"): (3, 2, 1),
        # Both hit the same job, which is counted for each of them.
        ("mail", "other"): (2, 2, 2),
        ("sms", "c"): (1, 1, 1),
    }


def test_a_ledger_without_a_look_does_not_pretend_to_know(history: History) -> None:
    row = history.read(LEDGER).agg(F.count("lost").alias("lost"), F.count("clean").alias("clean"))
    assert row.collect()[0].asDict() == {"lost": 0, "clean": 0}


def test_every_table_passes_its_count(history: History) -> None:
    found = quality.last_checks(history.root)
    assert {check.table for check in found} >= {"attempts", "items", "workers", "hourly"}
    assert [check for check in found if not check.passed] == []


def test_a_count_that_is_off_is_named(
    history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = str(tmp_path_factory.mktemp("off"))
    told = stories.rows([StoryEvent(0, "mail", "1", "added"), StoryEvent(1, "mail", "1", "active")])
    delta.save(stories.frame(spark, told), root, EVENTS, BatchId("bronze-test", 0))
    folded = fold(history_at(root))
    assert folded is not None
    rows = checks.quality(history_at(root), root, folded.hours).to_pylist()
    names = quality.Check._fields
    found = {row["table"]: quality.Check(*(row[name] for name in names)) for row in rows}
    assert found["attempts"].passed
    assert (found["hourly"].wanted, found["hourly"].found) == (1, 0)
    assert not found["hourly"].passed
    with pytest.raises(TablesDisagree, match=r"hourly: attempts started.*rebuild"):
        quality.require_consistent([str(check) for check in found.values() if not check.passed])


def test_workers_and_capacity_have_a_row_for_each_hour_worked(history: History) -> None:
    attempts = history.attempts().where(F.col("worker").isNotNull())
    assert history.read(WORKERS).agg(F.sum("attempts")).collect()[0][0] == attempts.count()
    assert history.read(CAPACITY).where(F.col("workers_needed") >= 1).count() > 0


def test_a_burst_asks_for_more_workers_than_the_same_jobs_over_an_hour(
    spark: SparkSession,
) -> None:
    """A hundred jobs of a second each, all at once in one queue and over an hour in the other."""
    hour = stories.START.replace(minute=0)
    second = dt.timedelta(seconds=1)
    ready = [("bullmq", "burst", "waiting", hour)] * 100
    ready += [("bullmq", "even", "waiting", hour + n * 36 * second) for n in range(100)]
    steps = spark.createDataFrame(ready, "line string, queue string, event string, at timestamp")
    ran = [(line, queue, at, 1_000, "ada") for line, queue, _, at in ready]
    attempts = spark.createDataFrame(
        ran, "line string, queue string, started_at timestamp, run_ms bigint, worker string"
    )
    hourly = spark.createDataFrame(
        [], "line string, queue string, hour timestamp, run_p95_ms double"
    )
    rows = capacity(steps, attempts, hourly, target_ms=1_000).to_pylist()
    found = {row["queue"]: row for row in rows}
    assert found["burst"]["busiest_per_s"] == pytest.approx(100 / 60)
    assert found["burst"]["workers_needed"] >= 48
    assert found["even"]["workers_needed"] <= 2


def test_answers_made_again_are_the_same(history: History) -> None:
    before = history.read(HOURLY).orderBy("queue", "hour").collect()
    day = stories.START.date()
    backfill(history, day, day + dt.timedelta(days=1))
    fresh = History(history.spark, history.root).read(HOURLY)
    assert fresh.orderBy("queue", "hour").collect() == before
