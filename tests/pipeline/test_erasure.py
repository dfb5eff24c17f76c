"""Whoever is forgotten is in no byte of the history, whatever else is in it or goes wrong."""

import datetime as dt
import os
import random
import re
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.pipeline import stories
from tests.pipeline.batches import run_round
from tests.pipeline.events_of_all import events_of_products
from tests.pipeline.rounds import (
    events_of_jobs,
    failed_checks,
    history_at,
    in_parts,
    keep,
    refresh,
    rows_of,
    tables_at,
)
from tests.pipeline.stories import START, StoryEvent
from tests.pipeline.test_cli_pipeline import traces
from waystation.core.errors import InvalidInput, WrongState
from waystation.pipeline.history import History
from waystation.pipeline.maintenance import erasure
from waystation.pipeline.maintenance.compaction import compact
from waystation.pipeline.maintenance.erasure import forget, retain
from waystation.pipeline.maintenance.rebuild import KEPT, rebuild, refresh_all
from waystation.pipeline.products.cron_slots import CRON_SLOTS, SCHEDULES
from waystation.pipeline.products.files import ADDED_FILES, FILE_DAYS, FILES
from waystation.pipeline.products.routing import ROUTED_JOBS, ROUTES
from waystation.pipeline.products.waitingroom import FAIRNESS, SESSIONS, VISITS
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.turns import shared_turn
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    FAILED_ITEMS,
    FAILURE_DAYS,
    FAILURES,
    HOURLY,
    ITEMS,
    LEDGER,
    WORKERS,
)

COMPARED = (
    ITEMS,
    ATTEMPTS,
    FAILED_ITEMS,
    FAILURES,
    ADDED_FILES,
    FILE_DAYS,
    FILES,
    FAIRNESS,
    ROUTED_JOBS,
    ROUTES,
    SCHEDULES,
    CRON_SLOTS,
)


def events_of_all(seed: int) -> list[dict[str, Any]]:
    """Events of all four products and a schedule; ids that nothing else contains."""
    rows = [*events_of_jobs(random.Random(seed), 30), *events_of_products(seed)]
    return [{**row, "job_id": f"<{row['product']} {row['job_id']}>"} for row in rows]


class FirstRound(NamedTuple):
    """A history of one round, and what comes later."""

    root: str
    parts: list[list[dict[str, Any]]]


@pytest.fixture(scope="module")
def first_round(tmp_path_factory: pytest.TempPathFactory) -> FirstRound:
    root = str(tmp_path_factory.mktemp("history") / "told")
    parts = list(in_parts(random.Random(17), events_of_all(4), 2))
    keep(root, parts[0], 0)
    refresh(history_at(root))
    return FirstRound(root, parts)


@pytest.fixture
def history(first_round: FirstRound, root: str) -> History:
    """A history of one round, of which each test has a copy."""
    shutil.copytree(first_round.root, root)
    return history_at(root)


def no_refresh(_: History) -> None:
    """Leave gold as it is."""


@pytest.mark.slow
def test_no_byte_is_left_whatever_is_done_in_whatever_order(
    root: str, history: History, first_round: FirstRound, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Gold is computed by what is done after each of them, and at the end.
    monkeypatch.setattr(erasure, "refresh_all", no_refresh)
    dice, gone = random.Random(4), list[str]()
    doing: list[Callable[[History], Any]] = [
        compact,
        lambda _: retain(history, START.date()),
        # It would be about them again.
        lambda _: keep(root, [row for row in later if row["job_id"] not in gone], 1),
        refresh_all,
    ]
    dice.shuffle(doing)
    first, later = first_round.parts
    subjects = sorted({row["job_id"] for row in first})
    for product in ("bullmq", "routing", "files", "waitingroom"):
        gone.append(dice.choice([each for each in subjects if product in each]))
        forget(history, gone[-1], queue="*")
        assert traces(Path(root), *gone) == []
        doing.pop()(history)
    refresh(history)
    assert failed_checks(root) == []
    found = {table.name: rows_of(root, table) for table in COMPARED}
    rebuild(history)
    assert found == {table.name: rows_of(root, table) for table in COMPARED}


@pytest.mark.slow
def test_a_refresh_that_fails_leaves_no_byte_behind(
    root: str, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(erasure, "refresh_all", refused)
    failed = next(row[2] for row in rows_of(root, ITEMS) if "failed" in row)
    named = (rows_of(root, table)[0][1] for table in (VISITS, SESSIONS, SCHEDULES))
    # What the fold has left for gold is part of it, and what a killed rebuild has put aside.
    shutil.copytree(ITEMS.path(root), KEPT.path(root))
    assert any("_changes" in name for name in traces(Path(root), failed))
    for someone in (failed, *named):
        assert traces(Path(root), someone)
        with pytest.raises(OSError, match="no space left"):
            forget(history, someone)
        assert traces(Path(root), someone) == []


def test_more_days_than_there_are_keep_everything() -> None:
    assert erasure.first_day_kept(10**12, START.date()) == dt.date.min


@pytest.mark.slow
def test_a_file_that_a_run_may_be_writing_is_named(
    root: str, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "refresh_all", no_refresh)
    someone = rows_of(root, ITEMS)[0][2]
    named = traces(Path(root), someone)
    events = Path(root, next(name for name in named if name.startswith("bronze/events/date")))
    left = events.with_name("part-of-a-killed-run.parquet")
    shutil.copy(events, left)
    with pytest.raises(WrongState, match=left.name):
        forget(history, someone)
    os.utime(left, (1, 1))
    forget(history, someone)
    assert traces(Path(root), someone) == []


@pytest.mark.slow
def test_a_queue_is_one_of_a_product(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "refresh_all", no_refresh)
    (row,) = events_of_all(1)[:1]
    shared: dict[str, Any] = {**row, "job_id": "7", "event": "added", "fields": []}
    keep(
        root,
        [
            {**shared, "product": "bullmq", "queue": "mail", "stream": "a"},
            {**shared, "product": "routing", "queue": "mail", "stream": "b"},
            {
                **shared,
                "product": "routing",
                "queue": "",
                "event": "removed",
                "stream": "b",
                "seq": 9,
            },
            {**shared, "product": "bullmq", "queue": "post", "stream": "c"},
        ],
        0,
    )
    history = history_at(root)
    with pytest.raises(InvalidInput, match="mail of bullmq, mail of routing, post of bullmq"):
        forget(history, "7")
    with pytest.raises(InvalidInput, match="--product"):
        forget(history, "7", queue="mail")
    assert forget(history, "7", queue="post")["events"] == 1
    assert forget(history, "7", queue="mail", product="bullmq")["events"] == 1
    # Of routing, some events have no queue.
    assert forget(history, "7", queue="mail", product="routing")["events"] == 2


NAME = "Zoë/Müller@example.org"


def spellings(name: str) -> list[str]:
    """How a writer of JSON, or a person, may write a name."""
    numbered = "".join(f"\\u{ord(each):04x}" for each in name)
    partly = "".join(each if each.isascii() else f"\\u{ord(each):04X}" for each in name)
    apart = unicodedata.normalize("NFD", name)
    return [
        name,
        numbered,
        numbered.upper().replace("\\U", "\\u"),
        partly,
        name.lower(),
        name.upper(),
        name.replace("/", "\\/"),
        partly.replace("\\u", "\\\\u"),
        apart,
        "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in apart),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("around", ['"{}"', "welcome:{}", "for {}, who", "a\\n{}", "a\\u0020{}\\n"])
def test_a_name_is_found_however_it_is_written(around: str) -> None:
    word = re.compile(erasure._word(NAME))  # pyright: ignore[reportPrivateUsage]
    for each in spellings(NAME):
        assert word.search(around.format(each)), each
        for other in (f"x{each}", f"{each}x", f"x@{each}", f"{each}-y"):
            assert not word.search(f'"{other}"'), other


def test_spark_finds_a_name_in_every_column(spark: SparkSession, root: str) -> None:
    (row,) = events_of_all(1)[:1]
    shared: dict[str, Any] = {**row, "job_id": "nobody", "worker": None, "fields": []}
    rows = [{**shared, "fields": [("reason", f"bad\\n{each}")]} for each in spellings(NAME)]
    rows += [{**shared, "job_id": f"welcome:{NAME}"}, {**shared, "worker": f"{NAME} 3"}]
    rows = [{**each, "seq": turn} for turn, each in enumerate(rows)]
    rows.append({**shared, "fields": [("reason", f"x{NAME}")], "seq": 99})
    keep(root, rows, 0)
    mentions = erasure._mentions(NAME)  # pyright: ignore[reportPrivateUsage]
    found = History(spark, root).events().where(mentions).select("seq").collect()
    assert sorted(each["seq"] for each in found) == list(range(len(rows) - 1))


@pytest.mark.slow
def test_a_retention_that_finds_nothing_old_changes_nothing(root: str) -> None:
    history = history_at(root)
    keep(root, events_of_jobs(random.Random(5), 20), 0)
    refresh(history)
    found = tables_at(root)
    assert found[LEDGER.name]
    retain(history, START.date() - dt.timedelta(days=9))
    refresh(history)
    assert tables_at(root) == found


def test_nobody_is_forgotten_where_nothing_was_stored_yet(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "refresh_all", no_refresh)
    with shared_turn(root, "run"):
        pass
    assert forget(history_at(root), "nobody") == {}


@pytest.mark.slow
def test_what_retain_has_deleted_does_not_come_back_with_the_next_run(
    root: str, redis_url: str
) -> None:
    later = dt.timedelta(days=9)
    life = [(0, "added"), (0, "waiting"), (5, "active"), (9, "completed")]
    good = stories.rows([StoryEvent(ms, "mail", "<good>", event) for ms, event in life])
    new = [
        {
            **row,
            "recorded_at": row["recorded_at"] + later,
            "at": row["at"] + later,
            "date": row["date"] + later,
            "fields": list(row["fields"].items()),
        }
        for row in good
    ]
    history, alone = history_at(root), history_at(f"{root}-alone")
    keep(root, events_of_jobs(random.Random(5), 20), 0)
    keep(root, new, 1)
    refresh(history)
    assert rows_of(root, FAILURES)
    retain(history, START.date() + later)
    keep(alone.root, new, 0)
    for each in (history, alone):
        run_round(each, RunOptions(events=EventOptions(url=redis_url)))
    for table in (HOURLY, CAPACITY, WORKERS, FAILURE_DAYS, FAILURES):
        assert rows_of(root, table) == rows_of(alone.root, table), table.name
    assert failed_checks(root) == []
