"""Rounds one after the other give the tables that a rebuild of all events gives."""

import datetime as dt
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from redis import Redis

from tests.pipeline import stories
from tests.pipeline.events_of_all import told_by_all
from tests.pipeline.test_engines import rows_of
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.products import product_tables
from waystation.pipeline.products.file_days import ADDED_FILES, FILE_DAYS
from waystation.pipeline.products.room_places import PLACES
from waystation.pipeline.products.waitingroom import ABANDONMENT_DAYS, SESSIONS, VISITS
from waystation.pipeline.refresh import fold, fold_here, gold_tables, quality
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.silver.moves import OPEN, STEPS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import (
    ATTEMPTS,
    EVENTS,
    FAILED_ITEMS,
    FAILURES,
    ITEMS,
    LEDGER,
    QUALITY,
    SLOTS,
    Table,
    every,
)

# The checks are those of the hours of the last round.
COMPARED = [table for table in (*every(), *OPEN, *product_tables()) if table is not QUALITY]


def no_spark() -> Any:
    raise AssertionError("so few rows need no Spark")


def told(dice: random.Random, jobs: int) -> list[dict[str, Any]]:
    """Events of which some happened long before they were written."""
    rows = stories.rows(stories.told_about(dice, jobs))
    for row in rows:
        if dice.random() < 0.05:
            row["at"] -= dt.timedelta(minutes=dice.randrange(1, 90))
        row["fields"] = list(row["fields"].items())
    return rows


def told_by_products(dice: random.Random) -> list[dict[str, Any]]:
    """Events of the other products over some days, of which some happened days before."""
    rows = told_by_all(dice.randrange(1_000_000))
    for row in rows:
        row["told_at"] = stories.START + (row["told_at"] - stories.START) * 40
        row["at"] = row["told_at"]
        row["date"] = row["told_at"].date()
        if dice.random() < 0.05:
            row["at"] -= dt.timedelta(hours=dice.randrange(1, 90))
    return sorted(rows, key=lambda row: (row["told_at"], row["seq"]))


def in_parts(dice: random.Random, rows: list[dict[str, Any]], parts: int) -> Iterator[list[Any]]:
    """Each stream cut at places of its own, so that one is read later than the other."""
    streams: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        streams.setdefault(row["stream"], []).append(row)
    cuts = {
        stream: [0, *sorted(dice.choices(range(len(mine) + 1), k=parts - 1)), len(mine)]
        for stream, mine in streams.items()
    }
    for part in range(parts):
        yield [
            row
            for stream, mine in streams.items()
            for row in mine[cuts[stream][part] : cuts[stream][part + 1]]
        ]


def keep(root: str, rows: list[dict[str, Any]], batch: int) -> None:
    events = pa.Table.from_pylist(rows, schema=schema_of(EVENTS.schema))
    delta.save(events, root, EVENTS, BatchId("bronze-test", batch))


def refresh(history: History) -> None:
    """What a round does after it has stored events."""
    fold.fold(history)
    gold_tables.refresh(history.fresh())


def tables_at(root: str) -> dict[str, list[Any]]:
    return {table.name: rows_of(root, table) for table in COMPARED}


@pytest.mark.parametrize("seed", [1, 2])
def test_rounds_over_parts_of_the_streams_give_the_tables_of_a_rebuild(
    root: str, seed: int
) -> None:
    dice = random.Random(seed)
    history = History(no_spark, root)
    for batch, rows in enumerate(in_parts(dice, told(dice, 120), 4)):
        keep(root, rows, batch)
        refresh(history)
        assert [str(each) for each in quality.last_checks(root) if not each.passed] == []
    found = tables_at(root)
    assert found[FAILURES.name]
    assert len(found[FAILED_ITEMS.name]) > 5
    rebuild(history)
    assert found == tables_at(root)


@pytest.mark.parametrize("seed", [3])
def test_rounds_over_the_events_of_every_product_give_the_tables_of_a_rebuild(
    root: str, seed: int
) -> None:
    dice = random.Random(seed)
    history = History(no_spark, root)
    rows = [*told(dice, 40), *told_by_products(dice)]
    for batch, part in enumerate(in_parts(dice, rows, 5)):
        keep(root, part, batch)
        refresh(history)
        assert [str(each) for each in quality.last_checks(root) if not each.passed] == []
    found = tables_at(root)
    rebuild(history)
    again = tables_at(root)
    # A rebuild makes the slots of the last day only.
    assert {name for name in found if found[name] != again[name]} <= {SLOTS.name}


def test_a_round_that_has_only_visitors_counts_them(root: str) -> None:
    history = History(no_spark, root)
    visitors = [row for row in told_by_all() if row["line"] == "waitingroom"]
    for batch, rows in enumerate((visitors[:200], visitors[200:])):
        keep(root, rows, batch)
        refresh(history)
    found = tables_at(root)
    assert len(found[VISITS.name]) == 120
    assert found[LEDGER.name]
    rebuild(history)
    assert found == tables_at(root)


def test_a_round_cut_short_at_any_write_is_finished_by_the_next(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(6)
    history = History(no_spark, root)
    first, second, third = in_parts(dice, told(dice, 120), 3)
    keep(root, first, 0)
    fold.fold(history)
    keep(root, second, 1)
    writes = {"save": (delta, delta.save), "_drop": (fold_here, fold_here._drop)}  # pyright: ignore[reportPrivateUsage]
    cuts = 0
    for allowed in range(100):
        left = allowed

        def cut_short(name: str, *given: Any, **more: Any) -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            writes[name][1](*given, **more)

        with monkeypatch.context() as patch:
            for name, (module, _) in writes.items():
                patch.setattr(module, name, partial(cut_short, name))
            try:
                fold.fold(history)
            except KeyboardInterrupt:
                cuts += 1
                continue
        break
    # Seven tables are saved, and rows of three are replaced.
    assert cuts == 10
    # More has come before anybody refreshes.
    keep(root, third, 2)
    refresh(history)
    found = tables_at(root)
    rebuild(history)
    assert found == tables_at(root)


@pytest.mark.parametrize(
    ("line", "stored"),
    [
        ("waitingroom", (PLACES, VISITS, SESSIONS, ABANDONMENT_DAYS)),
        ("files", (ADDED_FILES, FILE_DAYS)),
    ],
)
def test_a_round_of_a_product_killed_after_any_commit_is_finished_by_the_next(
    root: str, monkeypatch: pytest.MonkeyPatch, line: str, stored: tuple[Table, ...]
) -> None:
    dice = random.Random(8)
    history = History(no_spark, root)
    rows = [row for row in told_by_products(dice) if row["line"] == line]
    first, second, third = in_parts(dice, rows, 3)
    keep(root, first, 0)
    refresh(history)
    keep(root, second, 1)
    replace_days, killed = delta.replace_days, list[str]()

    def killed_after(root: str, table: Table, *more: Any) -> None:
        replace_days(root, table, *more)
        killed.append(table.name)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(delta, "replace_days", killed_after)
        for _ in stored:
            with pytest.raises(KeyboardInterrupt):
                refresh(history)
        # All of them are stored, so that there is nothing left to be killed after.
        refresh(history)
    assert killed == [table.name for table in stored]
    found = tables_at(root)
    keep(root, third, 2)
    refresh(history)
    assert found != tables_at(root)
    found = tables_at(root)
    rebuild(history)
    again = tables_at(root)
    assert {name for name in found if found[name] != again[name]} <= {SLOTS.name}


HOUR_MS = 3_600_000
DAY = dt.timedelta(days=1)
START_MS = int(dt.datetime(2026, 3, 1, 10, tzinfo=dt.UTC).timestamp() * 1000)


def tell(store: Redis, hour: int, event: str, **fields: str) -> None:
    entry = {"event": event, "jobId": "1", **fields}
    store.xadd("bull:mail:events", entry, id=f"{START_MS + hour * HOUR_MS}-*")  # pyright: ignore[reportArgumentType]


def test_the_ledger_sees_a_job_that_was_put_back_hours_after_it_had_failed(
    root: str, store: Redis, redis_url: str
) -> None:
    """It was added, claimed and put back in three different hours."""
    history = History(no_spark, root)
    options = RunOptions(events=EventOptions(url=redis_url), write_back=False)
    tell(store, 0, "added")
    tell(store, 0, "waiting")
    tell(store, 1, "active")
    tell(store, 1, "failed", failedReason="card expired")
    run(history, options)
    assert _account(root) == (1, 1, 0, 0)
    tell(store, 2, "waiting", prev="failed")
    store.hset("bull:mail:1", "name", "charge")
    store.lpush("bull:mail:wait", "1")
    run(history, options)
    assert _account(root) == (1, 0, 1, 0)
    store.delete("bull:mail:1")
    run(history, options)
    assert _account(root) == (1, 0, 0, 1)


def test_a_job_removed_without_an_event_is_not_forgotten_by_a_round_that_is_cut_short(
    root: str, store: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(no_spark, root)
    options = RunOptions(events=EventOptions(url=redis_url), write_back=False)
    tell(store, 0, "added")
    tell(store, 0, "waiting")
    store.hset("bull:mail:1", "name", "charge")
    store.lpush("bull:mail:wait", "1")
    run(history, options)
    assert _account(root) == (1, 0, 1, 0)
    store.delete("bull:mail:1", "bull:mail:wait")
    write = gold_tables._write_table  # pyright: ignore[reportPrivateUsage]

    def cut_short(root: str, table: Table, *more: Any) -> None:
        write(root, table, *more)
        if table is LEDGER:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gold_tables, "_write_table", cut_short)
        with pytest.raises(KeyboardInterrupt):
            run(history, options)
    run(history, options)
    assert rows_of(root, STEPS) == []
    assert _account(root) == (1, 0, 0, 0)


def tell_of_day(store: Redis, day: int) -> None:
    """Two jobs of one day, of which one fails and is tried again."""
    for job, fails in ((f"{day}-a", False), (f"{day}-b", True)):
        again: list[dict[str, str]] = [
            {"event": "retry", "failedReason": f"TimeoutError: no answer to {day}"},
            {"event": "active"},
        ]
        told = [{"event": "added"}, {"event": "active"}, *(again if fails else [])]
        for entry in [*told, {"event": "completed"}]:
            at_ms = START_MS + day * 24 * HOUR_MS
            store.xadd("bull:mail:events", {**entry, "jobId": job}, id=f"{at_ms}-*")  # pyright: ignore[reportArgumentType]


def test_a_round_reads_the_days_of_its_events_however_long_the_history_is(
    root: str, store: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(no_spark, root)
    options = RunOptions(events=EventOptions(url=redis_url))
    for day in range(8):
        tell_of_day(store, day)
    run(history, options)
    tell_of_day(store, 8)
    read_files, seen = delta.read_files, set[tuple[str, str]]()

    def noting(path: str, table: Table, names: list[str], **more: Any) -> Any:
        if table.partitions:
            seen.update((table.name, name.partition("/")[0]) for name in names)
        return read_files(path, table, names, **more)

    monkeypatch.setattr(delta, "read_files", noting)
    result = run(history, options)
    assert (result.events, result.failed_checks) == (8, ())
    today = f"date={dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC).date() + 8 * DAY}"
    tables = (EVENTS, ATTEMPTS, ITEMS, FAILED_ITEMS)
    assert seen == {(table.name, today) for table in tables}
    (failure,) = delta.read_arrow(root, FAILURES, ("attempts", "subjects")).to_pylist()
    assert failure == {"attempts": 9, "subjects": 9}


def _account(root: str) -> tuple[int, ...]:
    names = ("acknowledged", "terminal", "visible", "lost")
    (row,) = delta.read_arrow(root, LEDGER, names).to_pylist()
    return tuple(row[name] for name in names)
