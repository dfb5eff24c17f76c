"""Two who change a history at the same moment: the outcome is that of one after the other.

Rounds may share it with each other, and every commit of theirs is checked; whatever deletes,
rewrites or rebuilds is alone, and whoever comes meanwhile waits, or is refused with a sentence.
"""

import datetime as dt
import inspect
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from redis import Redis

from tests.pipeline.events_of_all import events_of_products
from tests.pipeline.rounds import (
    cut_short,
    failed_checks,
    history_at,
    keep,
    refresh,
    rows_of,
    tables_at,
)
from tests.pipeline.stories import START
from tests.pipeline.test_cli_pipeline import traces
from tests.pipeline.test_erasure import events_of_all
from tests.support.patience import LIMIT_S
from tests.support.size import size
from waystation import pipeline
from waystation.core.errors import InvalidInput, Overtaken, WrongState
from waystation.core.events import Product
from waystation.pipeline.history import History
from waystation.pipeline.maintenance import compaction, erasure, rebuild
from waystation.pipeline.products import folded_tables
from waystation.pipeline.products.room_places import PLACES
from waystation.pipeline.products.waitingroom import SESSIONS, VISITS
from waystation.pipeline.refresh import fold, gold_tables, ledger
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.refresh.subjects import fold_subjects
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta, task_files, turns
from waystation.pipeline.tables import EVENTS, ITEMS, LEDGER, QUALITY, SLOTS

FIRST_DAY = START.date()
MAINTENANCE: dict[str, Callable[[History], Any]] = {
    "forget": lambda history: erasure.forget(history, someone(history), queue="*"),
    "retain": lambda history: erasure.retain(history, FIRST_DAY),
    "compact": compaction.compact,
    "rebuild": rebuild.rebuild,
    "backfill": lambda history: rebuild.backfill(history, FIRST_DAY, FIRST_DAY),
}


CHANGES: list[tuple[Any, str]] = [
    (DeltaTable, "create_write_transaction"),
    (shutil, "rmtree"),
]
"""What changes tables."""


def bullmq_events(seed: int) -> list[dict[str, Any]]:
    """Events of one product: turns are taken with a history, whatever is in it."""
    return [row for row in events_of_all(seed) if row["product"] == Product.BULLMQ]


def someone(history: History) -> str:
    """Who is to be forgotten."""
    return min((row[2] for row in rows_of(history.root, ITEMS)), default="nobody")


def test_all_that_looks_after_a_history_is_known_here() -> None:
    exported = {
        name
        for module in (compaction, erasure, rebuild)
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if each.__module__ == module.__name__ and getattr(pipeline, name, None) is each
    }
    assert exported == MAINTENANCE.keys()


@pytest.mark.parametrize("name", MAINTENANCE)
def test_a_place_without_a_history_is_refused(name: str, root: str) -> None:
    with pytest.raises(InvalidInput, match="there is no history at"):
        MAINTENANCE[name](history_at(root))
    assert not Path(root).exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whoever_comes_while_another_is_alone_is_refused_and_changes_nothing(
    root: str, redis_url: str, store: Redis
) -> None:
    store.xadd("bull:mail:events", {"event": "added", "jobId": "<1>", "name": "x"})
    history, rows = history_at(root), bullmq_events(7)
    keep(root, rows[::2], 0)
    refresh(history)
    keep(root, rows[1::2], 1)

    def another_round(history: History) -> None:
        run(history, RunOptions(events=EventOptions(url=redis_url)))

    others = {**MAINTENANCE, "run": another_round}
    for name, act in MAINTENANCE.items():
        gone = someone(history) if name == "forget" else ""
        with frozen(act, history), pytest.MonkeyPatch.context() as patch:
            patch.setattr(turns, "PATIENCE_S", 0.1)
            before = versions(root)
            for other in others.values():
                with pytest.raises(WrongState, match=f"for the {name} of process"):
                    other(history)
            assert versions(root) == before
        assert not gone or traces(Path(root), gone) == []
    another_round(history)
    assert failed_checks(root) == []
    found = tables_at(root)
    rebuild.rebuild(history)
    assert found == tables_at(root)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_at_once_leave_what_one_after_the_other_leaves(root: str) -> None:
    history = history_at(root)
    keep(root, bullmq_events(9), 0)
    refresh(history)
    gone = someone(history)
    acting = (MAINTENANCE[name] for name in ("forget", "compact", "rebuild"))
    acts = [threading.Thread(target=act, args=(history,)) for act in acting]
    for each in acts:
        each.start()
    for each in acts:
        each.join()
    assert traces(Path(root), gone) == []
    found = tables_at(root)
    rebuild.rebuild(history)
    assert found == tables_at(root)
    assert failed_checks(root) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fold_of_visitors_that_another_overtakes_after_it_has_looked_is_refused(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no file yet that both would replace."""
    rows = [row for row in events_of_products(2) if row["product"] == Product.WAITINGROOM][:60]
    places = next(each for each in folded_tables() if each.table == PLACES)
    events, history, write = EVENTS.path(root), history_at(root), task_files.write
    keep(root, rows[:40], 0)
    fewer = DeltaTable(events).version()
    keep(root, rows[40:], 1)

    def raced(*given: Any) -> Any:
        monkeypatch.undo()
        fold_subjects(history, places, fewer)
        return write(*given)

    monkeypatch.setattr(task_files, "write", raced)
    with pytest.raises(Overtaken, match="another run has changed"):
        fold_subjects(history, places, DeltaTable(events).version())
    fold_subjects(history, places, DeltaTable(events).version())
    once = history_at(f"{root}-once")
    keep(once.root, rows, 0)
    fold_subjects(once, places, DeltaTable(EVENTS.path(once.root)).version())
    for table in (PLACES, VISITS, SESSIONS):
        assert rows_of(root, table) == rows_of(once.root, table)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("module", "step"), [(ledger, "write_days"), (delta, "commit")])
def test_a_ledger_that_another_writes_first_is_refused(
    root: str, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    """Both find no file of the hour, so there is none that both would replace."""
    history, write = history_at(root), getattr(module, step)
    keep(root, bullmq_events(9), 0)
    fold.fold(history)
    gold_tables.catch_up(history, target_ms=30_000)
    hours = Hours(tuple(START.replace(minute=0) + dt.timedelta(hours=n) for n in range(3)))

    def raced(*given: Any, **more: Any) -> Any:
        monkeypatch.undo()
        ledger.refresh_ledger(history, None, hours)
        return write(*given, **more)

    monkeypatch.setattr(module, step, raced)
    with pytest.raises(Overtaken, match="another run has changed"):
        ledger.refresh_ledger(history, None, hours)
    found = rows_of(root, LEDGER)
    assert found
    ledger.refresh_ledger(history, None, hours)
    assert rows_of(root, LEDGER) == found


ACTS: dict[str, Callable[[History], Any]] = {"count all": rebuild.refresh_all, "round": refresh}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("act", ACTS)
def test_whatever_another_does_between_two_commits_of_a_round_counts_once(
    root: str, act: str
) -> None:
    rows = bullmq_events(9)
    half = len(rows) // 2
    keep(root, rows[:half], 0)
    refresh(history_at(root))
    keep(root, rows[half:], 1)
    once = history_at(shutil.copytree(root, f"{root}-once"))
    rebuild.rebuild(once)
    wanted, point, is_early = tables_at(once.root), 1, True
    while is_early:
        history = history_at(shutil.copytree(root, f"{root}-{point}"))
        is_early = meets(history, ACTS[act], point)
        refresh(history)
        assert failed_checks(history.root) == []
        found = tables_at(history.root)
        differing = {name for name in wanted if found[name] != wanted[name]}
        assert differing <= {SLOTS.name}, (point, differing)
        point = max(point + 1, size(2 * point, full=0))


def meets(history: History, act: Callable[[History], Any], point: int) -> bool:
    """Whether a round makes so many commits; then another one acts on the same history."""
    acted = False

    def meeting(done: list[str]) -> bool:
        nonlocal acted
        if len(done) == point and not acted:
            acted = True
            with suppress(Overtaken):
                act(History(history.spark, history.root))
        return False

    with cut_short(meeting), suppress(Overtaken):
        refresh(history)
    return acted


@pytest.mark.slow
def test_silver_that_is_counted_twice_fails_the_checks(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, kept = history_at(root), gold_tables._kept  # pyright: ignore[reportPrivateUsage]

    def twice(*of: Any) -> DataFrame:
        return kept(*of).unionByName(kept(*of))

    keep(root, bullmq_events(9), 0)
    gold_tables.fold_after_counting(history)
    monkeypatch.setattr(gold_tables, "_kept", twice)
    rebuild.refresh_all(history)
    assert {each.partition(": wanted")[0] for each in failed_checks(root)} >= {
        "ledger: jobs added",
        "workers: attempts with a worker",
    }


def test_of_two_who_replace_a_table_at_once_one_is_refused(
    root: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = delta._leaving  # pyright: ignore[reportPrivateUsage]

    def replaced_by(name: str) -> None:
        rows = spark.createDataFrame([(name, "", 1, 1, True, START)], QUALITY.schema)
        task_files.replace(rows, root, QUALITY)

    def raced(*given: Any) -> Any:
        monkeypatch.undo()
        found = look(*given)
        replaced_by("faster")
        return found

    monkeypatch.setattr(delta, "_leaving", raced)
    with pytest.raises(Overtaken, match="another run has changed"):
        replaced_by("slower")
    assert [row[0] for row in rows_of(root, QUALITY)] == ["faster"]


def versions(root: str) -> dict[str, int]:
    """How often each table was changed."""
    logs = {log.parent for log in Path(root).glob("*/*/_delta_log")}
    return {str(each): DeltaTable(each).version() for each in logs}


@contextmanager
def frozen(act: Callable[[History], Any], history: History) -> Generator[None]:
    """Let somebody change a history, and stop before the first change while the block lasts."""
    stopped, go_on, failed = threading.Event(), threading.Event(), list[BaseException]()

    def waiting(change: Any) -> Any:
        def wrapped(*given: Any, **more: Any) -> Any:
            if threading.current_thread() is acting:
                stopped.set()
                go_on.wait()
            return change(*given, **more)

        return wrapped

    def acted() -> None:
        try:
            act(history)
        except BaseException as error:
            failed.append(error)
        finally:
            stopped.set()

    acting = threading.Thread(target=acted)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CHANGES:
            patch.setattr(owner, name, waiting(getattr(owner, name)))
        acting.start()
        assert stopped.wait(20 * LIMIT_S)
        try:
            yield
        finally:
            go_on.set()
            acting.join()
    assert not failed, failed
