"""Events folded into attempts and items, batch by batch, are the same as all at once."""

import datetime as dt
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.pipeline import oracle, stories
from tests.pipeline.rounds import cut_short, history_at, keep, reads
from tests.pipeline.stories import StoryEvent
from waystation.core.errors import Overtaken
from waystation.pipeline.history import History
from waystation.pipeline.refresh import fold
from waystation.pipeline.silver import steps
from waystation.pipeline.silver.lives import FOLDED
from waystation.pipeline.silver.moves import OPEN, OPEN_ATTEMPTS, OPEN_ITEMS, STEPS
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table

Rows = list[dict[str, Any]]


def as_rows(*events: StoryEvent) -> Rows:
    return as_stored(stories.rows(list(events)))


def as_stored(rows: Rows) -> Rows:
    return [{**row, "fields": list(row["fields"].items())} for row in rows]


def rows_at(root: str, *tables: Table) -> list[str]:
    return [str(row) for table in tables for row in read(root, table)]


def read(root: str, table: Table) -> Rows:
    return delta.read_arrow(root, table, table.names).to_pylist()


def assert_same(history: History) -> None:
    """What was carried from batch to batch is what all at once gives."""
    root, at_once = history.root, f"{history.root}-at-once"
    shutil.copytree(f"{root}/bronze", f"{at_once}/bronze")
    fold.fold(history_at(at_once))
    for pair in zip(FOLDED, OPEN, strict=False):
        assert sorted(rows_at(root, *pair)) == sorted(rows_at(at_once, *pair)), pair[0].name


@pytest.mark.slow
def test_batches_cut_anywhere_fold_into_what_all_events_at_once_give(
    spark: SparkSession, root: str
) -> None:
    dice = random.Random(3)
    history = History(spark, root)
    rows = stories.rows(stories.random_events(dice, 150))
    cuts = sorted(dice.sample(range(1, len(rows)), 3))
    signed = {table.name: Counter[str]() for table in FOLDED}
    for batch, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        keep(root, as_stored(rows[first:last]), batch)
        fold.fold(history)
        count_changes(root, signed)
    assert_same(history)
    assert len(oracle.attempts(rows)) == len(rows_at(root, ATTEMPTS, OPEN_ATTEMPTS))
    # What each batch has added and taken back is in the end what there is.
    for table, unfinished in zip(FOLDED, OPEN, strict=False):
        assert +signed[table.name] == Counter(rows_at(root, table, unfinished)), table.name
        assert not -signed[table.name]


def count_changes(root: str, signed: dict[str, Counter[str]]) -> None:
    """Add the rows that the last fold has added, and take away those that it has taken back."""
    for table in FOLDED:
        signed[table.name].update(changed(root, f"added_{table.name}"))
        signed[table.name].subtract(changed(root, f"removed_{table.name}"))


def changed(root: str, column: str) -> list[str]:
    """Rows that the last fold has added to silver, or taken back."""
    noted: Any = table_log.last_note(STEPS.path(root), fold.CHANGES_NOTE) or {"files": {}}
    names = [part["path"] for part in noted["files"].get(column, ())]
    table = fold.APART[column]
    return list(map(str, delta.read_files(table.path(root), table, names).to_pylist()))


def test_all_steps_of_a_job_are_folded_together_wherever_batches_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "PORTION", 1)
    jobs = [job for many, job in enumerate("abcdef", 1) for _ in range(many)]
    of = {"product": ["bullmq"], "queue": ["mail"]}
    rows = pa.record_batch(
        {**{name: each * len(jobs) for name, each in of.items()}, "job_id": jobs}
    )
    for size in range(1, len(jobs) + 1):
        batches = [rows[first : first + size] for first in range(0, len(jobs), size)]
        portions = [each["job_id"].to_pylist() for each in steps.by_subject(batches)]
        assert [job for each in portions for job in each] == jobs
        assert sum(len({*each}) for each in portions) == len({*jobs})


def test_what_few_steps_have_stays_with_them_while_spark_sorts(spark: SparkSession) -> None:
    dice = random.Random(7)
    has = {
        **dict.fromkeys(("name", "reason", "group", "_corrupt"), "x"),
        **dict.fromkeys(("cost", "more", "weight"), 0.5),
        "free_at": dt.datetime(2026, 7, 1, tzinfo=dt.UTC),
    }
    assert {*has} == {*steps.SELDOM}
    at = dt.datetime(2026, 7, 2, tzinfo=dt.UTC)
    step = {"product": "bullmq", "queue": "mail", "recorded_at": at, "at": at, "event": "added"}
    step |= {"birth": True, "again": False, "worker": None, **dict.fromkeys(has)}
    rows = [{**step, "job_id": str(seq % 7), "seq": seq} for seq in range(200)]
    for row in rows[20:]:
        row |= {name: each for name, each in has.items() if dice.random() < 0.1}
    given = spark.createDataFrame(rows, STEPS.schema)
    for portion in (rows, rows[:20]):
        packed: Any = steps.in_order(given.where(f"seq < {len(portion)}"))
        found = steps.unpacked(packed.toArrow().combine_chunks().to_batches()[0]).to_pylist()
        assert sorted(found, key=lambda row: row["seq"]) == portion


def test_few_steps_with_long_texts_are_a_portion() -> None:
    of = {"product": ["bullmq"] * 10, "queue": ["mail"] * 10, "reason": ["x" * 2**20] * 10}
    jobs = [[f"{batch}-{row}" for row in range(10)] for batch in range(20)]
    batches = (pa.record_batch({**of, "job_id": each}) for each in jobs)
    portions = [(each.num_rows, each.nbytes) for each in steps.by_subject(batches)]
    assert sum(many for many, _ in portions) == 200
    assert max(size for _, size in portions) <= steps.PORTION_BYTES + 20 * 2**20


@pytest.mark.slow
def test_drivers_that_fold_the_same_events_at_once_fold_them_once(
    spark: SparkSession, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(spark, root)
    rows = as_stored(stories.rows(stories.random_events(random.Random(5), 40)))
    many = len(rows) // 5 + 1
    batches = enumerate(rows[first : first + many] for first in range(0, len(rows), many))

    def store() -> int:
        number, some = next(batches)
        keep(root, some, number)
        return DeltaTable(EVENTS.path(root)).version()

    def fold_while(step: str, meanwhile: Callable[[], object]) -> None:
        """Fold, and let another driver do something before this step."""
        whole = getattr(fold, step)

        def raced(*given: Any) -> Any:
            monkeypatch.setattr(fold, step, whole)
            meanwhile()
            return whole(*given)

        monkeypatch.setattr(fold, step, raced)
        with pytest.raises(Overtaken, match="another run has changed"):
            fold.fold(history)

    def fold_more() -> None:
        store()
        fold.fold(history)

    store()
    fold_while("_commit", fold_more)

    before, last = fold.folded_version(history), store()

    def fold_fewer() -> None:
        """As a driver that is killed after its first commit."""
        with cut_short(bool), suppress(KeyboardInterrupt):
            fold._fold_up_to(history, before, last)  # pyright: ignore[reportPrivateUsage]

    store()
    fold_while("_commit", fold_fewer)
    fold.fold(history)

    store()
    # As a driver that has folded them when this one looks at what is open.
    fold_while("_tidy", lambda: fold.fold(history))
    assert_same(history)


CASES: dict[str, list[tuple[Any, ...]]] = {
    "tried twice": [
        (0, "1", "added"),
        (0, "1", "waiting"),
        (40, "1", "active", {"worker": "ada"}),
        (100, "1", "delayed"),
        (100, "1", "retry", {"fields": {"failedReason": "TimeoutError: 7 s"}}),
        (500, "1", "waiting", {"fields": {"prev": "delayed"}}),
        (530, "1", "active", {"worker": "ben"}),
        (700, "1", "completed"),
    ],
    "claimed again": [
        (0, "1", "added"),
        (1, "1", "active", {"worker": "ada"}),
        (2, "1", "active", {"worker": "ben"}),
        (3, "1", "added"),
        (4, "1", "active", {"worker": "eve"}),
        (5, "1", "failed", {"fields": {"failedReason": "gone"}}),
    ],
    "used again": [
        (0, "daily", "added"),
        (1, "daily", "active"),
        (2, "daily", "completed"),
        (900, "daily", "added"),
        (901, "daily", "active"),
    ],
    "completed twice": [
        (0, "1", "added"),
        (1, "1", "active"),
        (2, "1", "completed"),
        (3, "1", "completed"),
        (0, "2", "added"),
        (1, "2", "active"),
        (2, "2", "completed"),
        (5, "2", "waiting", {"fields": {"prev": "completed"}}),
        (6, "2", "active"),
        (7, "2", "completed"),
    ],
    "clocks": [
        (0, "1", "added"),
        (10, "1", "active", {"worker": "ada"}),
        (20, "1", "completed"),
    ],
    "odd": [(0, "1", "added"), (1, "1", "astonished"), (2, "", "active")],
}
"""Events of a queue's stream: when, of which job, what, and more."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    """The attempts and the items of all cases, folded at once, in the order of time."""
    root = str(tmp_path_factory.mktemp("history"))
    rows = [
        row
        for queue, steps in CASES.items()
        for row in as_rows(
            *(
                StoryEvent(at_ms, queue, job, event, **(more[0] if more else {}))
                for at_ms, job, event, *more in steps
            )
        )
    ]
    for row in rows:
        if (row["queue"], row["event"]) == ("clocks", "active"):
            row["at"] -= dt.timedelta(seconds=3)
        if row["queue"] == "odd":
            row["job_id"] = row["job_id"] or None
    odd = next(row for row in rows if row["queue"] == "odd")
    rows.append({**odd, "seq": 9, "event": "", "_corrupt": "no event"})
    keep(root, rows, 0)
    fold.fold(history_at(root))
    tried = [*read(root, ATTEMPTS), *read(root, OPEN_ATTEMPTS)]
    items = [*read(root, ITEMS), *read(root, OPEN_ITEMS)]
    return (
        sorted(tried, key=lambda row: row["started_at"]),
        sorted(items, key=lambda row: (row["added_at"], row["job_id"])),
    )


def of(rows: Rows, queue: str) -> Rows:
    return [row for row in rows if row["queue"] == queue]


def test_an_attempt_knows_its_wait_its_run_and_how_it_ended(cases: tuple[Rows, Rows]) -> None:
    first, second = of(cases[0], "tried twice")
    assert (first["wait_ms"], first["run_ms"], first["outcome"]) == (40, 60, "retried")
    assert (first["worker"], first["error_class"]) == ("ada", "TimeoutError")
    assert (second["wait_ms"], second["run_ms"], second["outcome"]) == (30, 170, "completed")
    assert (second["attempt"], second["reason"], second["fingerprint"]) == (2, None, None)


def test_an_attempt_ends_where_another_begins_or_its_id_is_used_again(
    cases: tuple[Rows, Rows],
) -> None:
    tried = of(cases[0], "claimed again")
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


def test_an_id_that_is_used_again_is_another_item(cases: tuple[Rows, Rows]) -> None:
    first, second = of(cases[1], "used again")
    assert (first["state"], first["attempts"], first["duplicates"]) == ("completed", 1, 0)
    assert (second["state"], second["attempts"]) == ("active", 1)


def test_a_job_completed_twice_is_counted_unless_it_was_put_back(cases: tuple[Rows, Rows]) -> None:
    assert [row["duplicates"] for row in of(cases[1], "completed twice")] == [1, 0]


def test_clocks_that_go_back_are_marked_and_make_no_negative_time(
    cases: tuple[Rows, Rows],
) -> None:
    (attempt,) = of(cases[0], "clocks")
    assert attempt["wait_ms"] is None
    assert attempt["_corrupt"] == "it was started before it was ready"


def test_events_nobody_knows_and_events_without_a_subject_change_nothing(
    cases: tuple[Rows, Rows],
) -> None:
    (item,) = of(cases[1], "odd")
    assert (item["state"], item["attempts"], item["_corrupt"]) == ("waiting", 0, None)


def test_ended_rows_are_kept_once_and_open_ones_are_carried(root: str) -> None:
    history = history_at(root)
    keep(
        root, as_rows(StoryEvent(0, "mail", "1", "added"), StoryEvent(5, "mail", "1", "active")), 0
    )
    fold.fold(history)
    assert read(root, ITEMS) == []
    assert [row["state"] for row in read(root, OPEN_ITEMS)] == ["active"]
    keep(root, as_rows(StoryEvent(9, "mail", "1", "completed")), 1)
    fold.fold(history)
    assert [row["state"] for row in read(root, ITEMS)] == ["completed"]
    assert (len(read(root, ATTEMPTS)), read(root, OPEN_ITEMS)) == (1, [])


def test_a_job_that_returns_is_looked_for_in_few_days_and_by_its_id(
    spark: SparkSession, root: str
) -> None:
    day_ms, days = 86_400_000, 12
    history = History(spark, root)
    keep(
        root,
        as_rows(
            *(
                StoryEvent(day * day_ms + step, "mail", str(day), event)
                for day in range(days)
                for step, event in enumerate(("added", "active", "failed"))
            )
        ),
        0,
    )
    fold.fold(history)
    keep(root, as_rows(StoryEvent(days * day_ms, "mail", str(days - 1), "waiting")), 1)
    with reads() as seen:
        fold.fold(history)
    looked_at = {name: len(days) for name, days in seen.items()}
    # The day it was added on, the day before, and the day on which it returned.
    assert looked_at == {ITEMS.name: delta.FIRST_DAYS, EVENTS.name: 3}
    assert_same(history)
    about = history.read(ITEMS).where("job_id in ('1', '2')")
    plan: Any = about._jdf  # pyright: ignore[reportPrivateUsage]
    assert "In(job_id, [1,2])" in plan.queryExecution().executedPlan().toString()


@pytest.mark.slow
def test_a_job_that_returns_is_known_to_whoever_finishes_a_fold_that_has_deleted_its_rows(
    spark: SparkSession, root: str
) -> None:
    history, day_ms = History(spark, root), 86_400_000
    lives = ("added", "active", "failed")
    keep(root, as_rows(*(StoryEvent(n, "mail", "1", each) for n, each in enumerate(lives))), 0)
    fold.fold(history)
    keep(root, as_rows(StoryEvent(2 * day_ms, "mail", "1", "waiting")), 1)
    with cut_short(lambda done: ITEMS.name in done), pytest.raises(KeyboardInterrupt):
        fold.fold(history)
    assert read(root, ITEMS) == []
    fold.fold(history)
    assert_same(history)


def test_events_that_were_only_rewritten_leave_open_work_as_it_is(
    spark: SparkSession, root: str
) -> None:
    history = History(spark, root)
    rows = as_stored(stories.rows(stories.random_events(random.Random(8), 20)))
    for batch, some in enumerate((rows[:40], rows[40:80])):
        keep(root, some, batch)
    fold.fold(history)
    before = {table.name: rows_at(root, table) for table in OPEN}
    assert all(before.values())
    DeltaTable(EVENTS.path(root)).optimize.compact()
    assert fold.fold(history) is not None
    assert {table.name: rows_at(root, table) for table in OPEN} == before
