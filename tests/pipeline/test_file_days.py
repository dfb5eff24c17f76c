"""Files counted by the day, round after round, are those that all events at once give."""

import datetime as dt
import random
import shutil
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.events_of_all import told_of_files
from tests.pipeline.test_engines import rows_of
from tests.pipeline.test_rounds import in_parts, keep, no_spark, refresh
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import compact
from waystation.pipeline.maintenance.erasure import forget, retain
from waystation.pipeline.maintenance.rebuild import rebuild, refresh_all
from waystation.pipeline.products.file_days import ADDED_FILES, FILE_DAYS
from waystation.pipeline.products.files import FILES
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.tables import EVENTS, Table

TABLES = (ADDED_FILES, FILE_DAYS, FILES)


def tables_at(root: str) -> dict[str, list[Any]]:
    return {table.name: rows_of(root, table) for table in TABLES}


def cut(dice: random.Random, rows: list[dict[str, Any]], parts: int) -> list[list[Any]]:
    return list(in_parts(dice, rows, parts))


def in_rounds(root: str, dice: random.Random, files: int, rounds: int) -> History:
    """A history that some rounds over files have made."""
    history = History(no_spark, root)
    for batch, rows in enumerate(cut(dice, told_of_files(dice, files), rounds)):
        keep(root, rows, batch)
        refresh(history)
    return history


def counted(root: str) -> Counter[tuple[str, str]]:
    """Files by directory and what became of them, from `files`."""
    found = Counter[tuple[str, str]]()
    for row in delta.read_arrow(root, FILES, FILES.names).to_pylist():
        for name in ("files", "completed", "dead", "bytes"):
            found[row["directory"], name] += row[name]
    return found


def expected(rows: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """The same from the events, told in plain words."""
    found = Counter[tuple[str, str]]()
    directories: dict[str, str] = {}
    last: dict[str, str] = {}
    for row in rows:
        fields = dict(row["fields"])
        if "path" in fields:
            directories[row["subject"]] = fields["path"].rpartition("/")[0]
            found[directories[row["subject"]], "files"] += 1
            found[directories[row["subject"]], "bytes"] += int(fields["size"])
        # What is removed after its end keeps the state in which it ended.
        if row["event"] != "removed":
            last[row["subject"]] = row["event"]
    for subject, event in last.items():
        if event in ("completed", "dead"):
            found[directories[subject], event] += 1
    return found


@pytest.mark.parametrize("seed", range(3))
def test_files_added_up_round_after_round_are_those_of_all_events_at_once(
    root: str, seed: int
) -> None:
    dice = random.Random(seed)
    rows, history = told_of_files(dice, 60), History(no_spark, root)
    for batch, part in enumerate(cut(dice, rows, 4)):
        keep(root, part, batch)
        refresh(history)
    assert +counted(root) == +expected(rows)
    found = tables_at(root)
    refresh_all(history)
    assert found == tables_at(root)
    rebuild(history)
    assert found == tables_at(root)


@pytest.mark.long
def test_both_engines_add_up_the_same_files(spark: SparkSession, root: str) -> None:
    dice = random.Random(11)
    parts = cut(dice, told_of_files(dice, 40), 3)
    for batch, part in enumerate(parts):
        keep(root, part, batch)
        # With Spark, without it, and with Spark again.
        refresh(History(spark, root, spark_from=0 if batch != 1 else 10**9))
    found = tables_at(root)
    rebuild(History(no_spark, root))
    assert found == tables_at(root)


def test_a_round_without_news_writes_nothing(root: str) -> None:
    history = in_rounds(root, random.Random(5), 30, 2)
    paths = [table.path(root) for table in (ADDED_FILES, FILE_DAYS)]
    before, found = [changes.version(path) for path in paths], tables_at(root)
    refresh(history)
    assert [changes.version(path) for path in paths] == before
    compact(history)
    refresh(history)
    assert found == tables_at(root)


def test_a_round_reads_the_files_of_the_days_on_which_its_own_were_added(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = told_of_files(random.Random(7), 120)
    # Without files that stay open, whose days every round looks at.
    last = {row["subject"]: row["event"] for row in rows}
    rows = [row for row in rows if last[row["subject"]] in ("completed", "dead", "removed")]
    history = History(no_spark, root)
    added = {row["subject"]: row["date"] for row in rows if "path" in dict(row["fields"])}
    days = sorted(set(added.values()))
    news = [row for row in rows if row["date"] >= days[-1]]
    keep(root, [row for row in rows if row["date"] < days[-1]], 0)
    refresh(history)
    keep(root, news, 1)
    read_files, seen = delta.read_files, set[str]()

    def noting(path: str, table: Table, names: list[str], **more: Any) -> Any:
        if table is ADDED_FILES:
            seen.update(name.partition("/")[0] for name in names)
        return read_files(path, table, names, **more)

    monkeypatch.setattr(delta, "read_files", noting)
    refresh(history)
    assert seen == {f"date={added[row['subject']]}" for row in news}
    assert len(seen) < len(days)


def test_a_file_that_is_forgotten_and_days_that_are_not_retained_are_not_counted(
    root: str,
) -> None:
    history = in_rounds(root, random.Random(3), 60, 3)
    before = sum(row["files"] for row in delta.read_arrow(root, FILES, FILES.names).to_pylist())
    gone = forget(history, "f7")
    assert gone[ADDED_FILES.name] == 1
    after = sum(row["files"] for row in delta.read_arrow(root, FILES, FILES.names).to_pylist())
    assert after == before - 1
    found = tables_at(root)
    rebuild(history)
    assert found == tables_at(root)
    days = delta.read_arrow(root, ADDED_FILES, ("date",))["date"].to_pylist()
    middle: dt.date = sorted(days)[len(days) // 2]
    deleted = retain(history, middle)
    assert deleted[FILE_DAYS.name]
    refresh_all(history)
    kept = sum(row["files"] for row in delta.read_arrow(root, FILES, FILES.names).to_pylist())
    assert kept == sum(day >= middle for day in days)


def test_a_history_without_files_by_the_day_gets_them_with_its_next_round(root: str) -> None:
    """As version 6 left it."""
    dice = random.Random(9)
    first, second = cut(dice, told_of_files(dice, 50), 2)
    history = History(no_spark, root)
    keep(root, first, 0)
    refresh(history)
    for table in (ADDED_FILES, FILE_DAYS):
        shutil.rmtree(table.path(root))
    keep(root, second, 1)
    refresh(history)
    found = tables_at(root)
    assert found[FILES.name]
    rebuild(history)
    assert found == tables_at(root)


def test_a_history_without_files_has_no_tables_of_them(root: str) -> None:
    rows = [{**row, "line": "bullmq"} for row in told_of_files(random.Random(2), 5)]
    keep(root, rows, 0)
    refresh(History(no_spark, root))
    assert delta.count(EVENTS.path(root))
    assert [changes.version(table.path(root)) for table in TABLES] == [None, None, None]
