"""Events folded into attempts and items, batch by batch, are the same as all at once."""

import datetime as dt
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline import oracle, stories
from tests.pipeline.rounds import no_spark
from tests.pipeline.stories import StoryEvent
from waystation.pipeline.history import History
from waystation.pipeline.refresh import fold
from waystation.pipeline.silver import attempts as attempts_fold
from waystation.pipeline.silver import items as items_fold
from waystation.pipeline.silver.failed_items import failing
from waystation.pipeline.silver.lives import FOLDED
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.silver.steps import steps, with_lives
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table


def keep(history: History, rows: list[dict[str, Any]], batch: int) -> None:
    events = stories.frame(history.spark, rows)
    delta.save(events, history.root, EVENTS, BatchId("bronze-test", batch))


def at_once(history: History) -> tuple[DataFrame, DataFrame]:
    """Attempts and items, folded from all of bronze."""
    all_steps = with_lives(steps(history.read(EVENTS)))
    tried = attempts_fold.attempts(all_steps)
    return attempts_fold.rows(tried), items_fold.rows(items_fold.items(all_steps, tried))


def assert_same(history: History) -> None:
    """What was carried from batch to batch is what all at once gives."""
    fresh = History(history.spark, history.root)
    tried, items = at_once(fresh)
    assert collected(fresh.attempts()) == collected(tried)
    assert collected(fresh.items()) == collected(items)
    lives = attempts_fold.attempts(with_lives(steps(fresh.read(EVENTS))))
    columns = ("line", "queue", "subject", "fingerprint", "reason", "first_at", "last_at")
    columns = (*columns, "failed", "retried", "recovered")
    wanted = failing(lives).select(*columns)
    assert collected(fresh.failed_items(columns)) == collected(wanted)


def collected(rows: DataFrame) -> list[str]:
    return sorted(map(str, rows.collect()))


def test_batches_cut_anywhere_fold_into_what_all_events_at_once_give(
    spark: SparkSession, root: str
) -> None:
    dice = random.Random(3)
    history = History(spark, root, spark_from=0)
    rows = stories.rows(stories.told_about(dice, 150))
    cuts = sorted(dice.sample(range(1, len(rows)), 3))
    signed = {table.name: Counter[str]() for table in FOLDED}
    for batch, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        keep(history, rows[first:last], batch)
        fold.fold(history)
        count_changes(root, signed)
    assert_same(history)
    assert len(oracle.attempts(rows)) == History(spark, root).attempts().count()
    # What each batch has added and taken back is in the end what there is.
    for table, unfinished in zip(FOLDED, OPEN, strict=False):
        kept = [*rows_at(root, table), *rows_at(root, unfinished)]
        assert +signed[table.name] == Counter(kept), table.name
        assert not -signed[table.name]


def count_changes(root: str, signed: dict[str, Counter[str]]) -> None:
    """Add the rows that the last fold has added, and take away those that it has taken back."""
    for table in FOLDED:
        signed[table.name].update(map(str, fold.changed(root, f"added_{table.name}").to_pylist()))
        gone = fold.changed(root, f"removed_{table.name}").to_pylist()
        signed[table.name].subtract(map(str, gone))


def rows_at(root: str, table: Table) -> list[str]:
    return list(map(str, delta.read_arrow(root, table, table.names).to_pylist()))


@pytest.mark.parametrize(
    "points",
    [
        pytest.param((1, 6), id="some"),
        pytest.param(range(100), id="all", marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_a_fold_cut_short_at_any_commit_is_finished_by_the_next(
    spark: SparkSession, root: str, monkeypatch: pytest.MonkeyPatch, points: Sequence[int]
) -> None:
    history = History(spark, root, spark_from=0)
    rows = stories.rows(stories.told_about(random.Random(5), 60))
    third = len(rows) // 3
    keep(history, rows[:third], 0)
    fold.fold(history)
    keep(history, rows[third : 2 * third], 1)
    writes: dict[str, Any] = {"commit": delta.commit, "delete_rows": delta.delete_rows}
    cuts = 0
    for allowed in points:
        left = allowed

        def cut_short(name: str, *given: Any, **more: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return writes[name](*given, **more)

        with monkeypatch.context() as patch:
            for name in writes:
                patch.setattr(delta, name, partial(cut_short, name))
            try:
                fold.fold(history)
            except KeyboardInterrupt:
                cuts += 1
                continue
        break
    # Three tables are told what is begun, lose rows and get rows; four are replaced.
    assert cuts == (len(points) if len(points) < 100 else 13)
    # More has come before anybody tries again.
    keep(history, rows[2 * third :], 2)
    fold.fold(history)
    assert fold.fold(history) is None
    assert_same(history)


def told(*events: StoryEvent) -> list[dict[str, Any]]:
    return stories.rows(list(events))


def attempts_of(spark: SparkSession, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tried = attempts_fold.attempts(with_lives(steps(stories.frame(spark, rows))))
    return [row.asDict() for row in attempts_fold.rows(tried).orderBy("started_at").collect()]


def items_of(spark: SparkSession, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    all_steps = with_lives(steps(stories.frame(spark, rows)))
    items = items_fold.items(all_steps, attempts_fold.attempts(all_steps))
    return [row.asDict() for row in items_fold.rows(items).orderBy("added_at").collect()]


def test_an_attempt_knows_its_wait_its_run_and_how_it_ended(spark: SparkSession) -> None:
    first, second = attempts_of(
        spark,
        told(
            StoryEvent(0, "mail", "1", "added"),
            StoryEvent(0, "mail", "1", "waiting"),
            StoryEvent(40, "mail", "1", "active", worker="ada"),
            StoryEvent(100, "mail", "1", "delayed"),
            StoryEvent(100, "mail", "1", "retry", fields={"failedReason": "TimeoutError: 7 s"}),
            StoryEvent(500, "mail", "1", "waiting", fields={"prev": "delayed"}),
            StoryEvent(530, "mail", "1", "active", worker="ben"),
            StoryEvent(700, "mail", "1", "completed"),
        ),
    )
    assert (first["wait_ms"], first["run_ms"], first["outcome"]) == (40, 60, "retried")
    assert (first["worker"], first["error_class"]) == ("ada", "TimeoutError")
    assert (second["wait_ms"], second["run_ms"], second["outcome"]) == (30, 170, "completed")
    assert (second["attempt"], second["reason"], second["fingerprint"]) == (2, None, None)


def test_attempts_are_found_with_one_shuffle_and_one_sort(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    attempts_fold.attempts(with_lives(steps(stories.frame(spark, [])))).explain()
    plan = capsys.readouterr().out
    assert (plan.count("Exchange "), plan.count("- Sort "), plan.count("Aggregate")) == (1, 1, 0)


def test_an_attempt_ends_where_another_begins_or_its_id_is_used_again(spark: SparkSession) -> None:
    tried = attempts_of(
        spark,
        told(
            StoryEvent(0, "mail", "1", "added"),
            StoryEvent(1, "mail", "1", "active", worker="ada"),
            StoryEvent(2, "mail", "1", "active", worker="ben"),
            StoryEvent(3, "mail", "1", "added"),
            StoryEvent(4, "mail", "1", "active", worker="eve"),
            StoryEvent(5, "mail", "1", "failed", fields={"failedReason": "gone"}),
        ),
    )
    assert [(row["worker"], row["attempt"], row["outcome"]) for row in tried] == [
        ("ada", 1, "open"),
        ("ben", 2, "open"),
        ("eve", 1, "failed"),
    ]
    assert [row["wait_ms"] for row in tried] == [1, None, 1]
    assert [(row["ended_at"] is None, row["reason"]) for row in tried] == [
        (True, None),
        (True, None),
        (False, "gone"),
    ]


def test_an_id_that_is_used_again_is_another_item(spark: SparkSession) -> None:
    first, second = items_of(
        spark,
        told(
            StoryEvent(0, "mail", "daily", "added"),
            StoryEvent(1, "mail", "daily", "active"),
            StoryEvent(2, "mail", "daily", "completed"),
            StoryEvent(900, "mail", "daily", "added"),
            StoryEvent(901, "mail", "daily", "active"),
        ),
    )
    assert (first["state"], first["attempts"], first["duplicates"]) == ("completed", 1, 0)
    assert (second["state"], second["attempts"]) == ("active", 1)


def test_a_job_completed_twice_is_counted_unless_it_was_put_back(spark: SparkSession) -> None:
    twice = [StoryEvent(0, "mail", "1", "added"), StoryEvent(1, "mail", "1", "active")]
    twice += [StoryEvent(2, "mail", "1", "completed"), StoryEvent(3, "mail", "1", "completed")]
    back = [StoryEvent(0, "mail", "2", "added"), StoryEvent(1, "mail", "2", "active")]
    back += [StoryEvent(2, "mail", "2", "completed")]
    back += [StoryEvent(5, "mail", "2", "waiting", fields={"prev": "completed"})]
    back += [StoryEvent(6, "mail", "2", "active"), StoryEvent(7, "mail", "2", "completed")]
    items = {row["subject"]: row for row in items_of(spark, told(*twice, *back))}
    assert (items["1"]["duplicates"], items["2"]["duplicates"]) == (1, 0)


def test_clocks_that_go_back_are_marked_and_make_no_negative_time(spark: SparkSession) -> None:
    rows = told(
        StoryEvent(0, "mail", "1", "added"),
        StoryEvent(10, "mail", "1", "active", worker="ada"),
        StoryEvent(20, "mail", "1", "completed"),
    )
    rows[1]["at"] -= dt.timedelta(seconds=3)
    (attempt,) = attempts_of(spark, rows)
    assert attempt["wait_ms"] is None
    assert attempt["_corrupt"] == "it was started before it was ready"


def test_events_nobody_knows_and_events_without_a_subject_change_nothing(
    spark: SparkSession,
) -> None:
    rows = told(
        StoryEvent(0, "mail", "1", "added"),
        StoryEvent(1, "mail", "1", "astonished"),
        StoryEvent(2, "mail", "", "active"),
    )
    rows[2]["subject"] = None
    rows.append({**rows[0], "seq": 9, "event": "", "_corrupt": "no event"})
    (item,) = items_of(spark, rows)
    assert (item["state"], item["attempts"], item["_corrupt"]) == ("waiting", 0, None)


def test_ended_rows_are_kept_once_and_open_ones_are_carried(spark: SparkSession, root: str) -> None:
    history = History(spark, root, spark_from=0)
    keep(
        history,
        told(StoryEvent(0, "mail", "1", "added"), StoryEvent(5, "mail", "1", "active")),
        0,
    )
    fold.fold(history)
    assert history.read(ITEMS).count() == 0
    assert [row["state"] for row in History(spark, root).items().collect()] == ["active"]
    ended = stories.rows([StoryEvent(9, "mail", "1", "completed")])
    keep(history, ended, 1)
    fold.fold(history)
    assert [row["state"] for row in history.read(ITEMS).collect()] == ["completed"]
    assert history.read(ATTEMPTS).count() == 1


def test_a_job_that_returns_is_looked_for_in_few_days_and_by_its_id(
    spark: SparkSession, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    day_ms, days = 86_400_000, 12
    history = History(spark, root, spark_from=0)
    keep(
        history,
        told(
            *(
                StoryEvent(day * day_ms + step, "mail", str(day), event)
                for day in range(days)
                for step, event in enumerate(("added", "active", "failed"))
            )
        ),
        0,
    )
    fold.fold(history)
    keep(history, told(StoryEvent(days * day_ms, "mail", str(days - 1), "waiting")), 1)
    looked_at: dict[str, list[int]] = {EVENTS.name: [], ITEMS.name: []}
    read = delta.read

    def watched(*given: Any, **more: Any) -> DataFrame:
        rows = read(*given, **more)
        if given[2].name in looked_at:
            looked_at[given[2].name].append(len(more["days"]))
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(delta, "read", watched)
        fold.fold(history)
    # The day it was added on, the day before, and the day on which it returned.
    assert looked_at == {ITEMS.name: [fold.FIRST_DAYS], EVENTS.name: [3]}
    assert_same(history)
    about = history.read(ITEMS).where("subject in ('1', '2')")
    plan: Any = about._jdf  # pyright: ignore[reportPrivateUsage]
    assert "In(subject, [1,2])" in plan.queryExecution().executedPlan().toString()


def test_events_that_were_only_rewritten_leave_open_work_as_it_is(
    spark: SparkSession, root: str
) -> None:
    history = History(spark, root, spark_from=0)
    rows = stories.rows(stories.told_about(random.Random(8), 20))
    for batch, some in enumerate((rows[:40], rows[40:80])):
        keep(history, some, batch)
    fold.fold(history)
    before = {table.name: rows_at(root, table) for table in OPEN}
    assert all(before.values())
    DeltaTable(EVENTS.path(root)).optimize.compact()
    assert fold.fold(history) is not None
    assert {table.name: rows_at(root, table) for table in OPEN} == before


def test_open_work_that_an_older_version_has_not_stored_is_stored(root: str) -> None:
    history = History(no_spark, root)
    rows = stories.rows(stories.told_about(random.Random(8), 20))
    told_rows = [{**row, "fields": list(row["fields"].items())} for row in rows[:80]]
    events = pa.Table.from_pylist(told_rows, schema=schema_of(EVENTS.schema))
    delta.save(events, root, EVENTS, BatchId("bronze-test", 0))
    fold.fold(history)
    before = {table.name: sorted(rows_at(root, table)) for table in OPEN}
    for table in OPEN[:-1]:
        shutil.rmtree(table.path(root))
    fold.fold(history)
    assert {table.name: sorted(rows_at(root, table)) for table in OPEN} == before
