"""Files are written anew by tasks: those of which rows go, and those that become fewer."""

import ast
import datetime as dt
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

import waystation
from tests.pipeline.rounds import history_at
from tests.pipeline.saved import save
from waystation.pipeline.history import History
from waystation.pipeline.refresh.subjects import change_files
from waystation.pipeline.storage import delta, rewriting, table_log
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.storage.rewriting import EVERY, Change, Rows, SameAs, Where
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.table_log import files_of
from waystation.pipeline.tables import ITEMS

MONDAY, TUESDAY = dt.date(2026, 3, 2), dt.date(2026, 3, 3)


def items(*ids: str | None, day: dt.date = MONDAY, **given: Any) -> Any:
    rows = [{"product": "bullmq", "queue": "mail", "job_id": id, "date": day} for id in ids]
    return pa.Table.from_pylist([{**row, **given} for row in rows], schema=schema_of(ITEMS.schema))


@pytest.fixture
def history(root: str) -> History:
    """Two files of one day, and one of another."""
    save(items("1", "3", None), root, ITEMS, BatchId("silver", 1))
    save(items("2", "5"), root, ITEMS, BatchId("silver", 2))
    save(items("1", day=TUESDAY), root, ITEMS, BatchId("silver", 3))
    return history_at(root)


def without_spark(root: str) -> History:
    def refuse() -> Any:
        raise AssertionError("no row need be read")

    return History(refuse, root)


def names(root: str) -> set[str]:
    return set(files_of(ITEMS.path(root))["path"].to_pylist())


def ids(root: str) -> list[tuple[str | None, dt.date]]:
    found = delta.read_arrow(root, ITEMS, ("job_id", "date")).to_pylist()
    return sorted(((row["job_id"], row["date"]) for row in found), key=str)


LEFT = [("3", MONDAY), ("5", MONDAY), (None, MONDAY)]


@pytest.mark.parametrize(
    "change",
    [
        Rows(("queue", "job_id"), frozenset({("mail", "1"), ("mail", "2"), ("sms", "3")})),
        Where(pc.field("job_id") < "3", ("job_id",)),
    ],
)
def test_rows_go_and_files_without_such_rows_stay(
    root: str, history: History, change: Change
) -> None:
    save(items("7", "9"), root, ITEMS, BatchId("silver", 4))
    before = names(root)
    assert rewriting.delete(history, {ITEMS: change}) == {"items": 3}
    assert ids(root) == sorted([*LEFT, ("7", MONDAY), ("9", MONDAY)], key=str)
    assert len(before & names(root)) == 1
    version = table_log.version(ITEMS.path(root))
    assert rewriting.delete(history, {ITEMS: change}) == {"items": 0}
    assert table_log.version(ITEMS.path(root)) == version


def test_rows_that_are_equal_in_every_column_go(root: str, history: History) -> None:
    place = change_files("gone_items", ITEMS)
    with PartWriter.of(root, place) as writer:
        for gone in (items("1", None), items("5", attempts=1), items("2", day=TUESDAY)):
            for batch in gone.to_batches():
                writer.write(batch)
    same = SameAs(place.path(root), place, writer.parts)
    assert rewriting.delete(history, {ITEMS: same}) == {"items": 2}
    assert ids(root) == [("1", TUESDAY), ("2", MONDAY), ("3", MONDAY), ("5", MONDAY)]


@pytest.mark.usefixtures("history")
def test_whole_days_and_whole_tables_go_without_being_read(root: str) -> None:
    mine, none = without_spark(root), Rows(("job_id",), frozenset({("9",)}))
    assert rewriting.delete(mine, {ITEMS: none}) == {"items": 0}
    old = Where(pc.field("date") < MONDAY, ("date",), ("date", None, MONDAY))
    assert rewriting.delete(mine, {ITEMS: old}) == {"items": 0}
    old = Where(pc.field("date") < TUESDAY, ("date",), ("date", None, TUESDAY))
    assert rewriting.delete(mine, {ITEMS: old}) == {"items": 5}
    assert ids(root) == [("1", TUESDAY)]
    assert rewriting.delete(mine, {ITEMS: EVERY}) == {"items": 1}
    rewriting.compact(mine, {ITEMS: []})
    assert ids(root) == []


def test_rows_that_are_written_again_are_not_new(root: str, history: History) -> None:
    path, there = ITEMS.path(root), ids(root)
    before = table_log.version(path)
    group = [name for name in names(root) if str(MONDAY) in name]
    rewriting.compact(history, {ITEMS: [group]})
    assert (len(names(root)), ids(root)) == (2, there)
    compacted = DeltaTable(path).version()
    assert table_log.changed_days(path, after=before, until=compacted) == []
    rewriting.delete(history, {ITEMS: Rows(("job_id",), frozenset({("5",)}))})
    now = DeltaTable(path).version()
    assert table_log.new_files(path, after=before, until=now) == []
    assert table_log.changed_days(path, after=compacted, until=now) == [MONDAY]


def meanwhile(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody else do something between the tasks and the commit, once."""
    whole = rewriting._done  # pyright: ignore[reportPrivateUsage]

    def raced(*given: Any) -> Any:
        patch.setattr(rewriting, "_done", whole)
        done = whole(*given)
        act()
        return done

    patch.setattr(rewriting, "_done", raced)


def stored(root: str) -> set[str]:
    """All files of the table, also those that it does not need."""
    files, place = delta.filesystem(ITEMS.path(root))
    found = files.get_file_info(delta.fs.FileSelector(place, recursive=True))
    return {each.base_name for each in found if each.base_name.startswith("part-")}


def test_a_deletion_looks_again_where_files_became_others_meanwhile(
    root: str, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = stored(root)
    one = Rows(("job_id",), frozenset({("1",)}))
    meanwhile(monkeypatch, lambda: rewriting.compact(history, {ITEMS: [sorted(names(root))[:2]]}))
    assert rewriting.delete(history, {ITEMS: one}) == {"items": 2}
    assert ids(root) == sorted([("2", MONDAY), *LEFT], key=str)
    # Nothing is left of the first attempt: only the compacted file and what came of it.
    assert len(stored(root) - old) == 2


def test_a_compaction_gives_way_to_whoever_changes_its_files_meanwhile(
    root: str, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Rows(("job_id",), frozenset({("2",)}))
    meanwhile(monkeypatch, lambda: rewriting.delete(history, {ITEMS: one}))
    rewriting.compact(history, {ITEMS: [sorted(names(root))[:2]]})
    assert ids(root) == sorted([("1", MONDAY), ("1", TUESDAY), *LEFT], key=str)
    assert len(names(root)) == 3


def rewrites(root: str, gone: set[str], rows: Any, *, is_same: bool = True) -> None:
    delta.rewrite(ITEMS.path(root), ITEMS, parts_of(root, rows), gone, is_same=is_same)


def replaces(root: str, gone: set[str], rows: Any, **given: Any) -> None:
    parts, batch, by = parts_of(root, rows), BatchId("silver", 9), ITEMS.partitions
    which = given or {"gone": gone}
    delta.commit(ITEMS.path(root), ITEMS.schema, parts, batch, partitions=by, **which)


def parts_of(root: str, rows: Any) -> list[Part]:
    with PartWriter.of(root, ITEMS) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
    return writer.parts


@pytest.mark.parametrize(
    "act",
    [
        rewrites,
        partial(rewrites, is_same=False),
        replaces,
        partial(replaces, replace=True),
        partial(replaces, replace=[MONDAY]),
    ],
)
def test_files_that_become_others_just_before_a_commit_are_not_replaced_by_it(
    root: str, monkeypatch: pytest.MonkeyPatch, act: Callable[[str, set[str], Any], None]
) -> None:
    save(items("1"), root, ITEMS, BatchId("silver", 1))
    save(items("2"), root, ITEMS, BatchId("silver", 2))
    old, look = names(root), delta._leaving  # pyright: ignore[reportPrivateUsage]

    def raced(*given: Any) -> list[str]:
        monkeypatch.undo()
        found = look(*given)
        rewrites(root, old, items("1", "2"))
        return found

    monkeypatch.setattr(delta, "_leaving", raced)
    with pytest.raises(CommitFailedError):
        act(root, old, items("1", "2", "3"))
    assert ids(root) == [("1", MONDAY), ("2", MONDAY)]


REWRITES = {"optimize", "delete", "merge", "update", "write_deltalake"}
"""What delta-rs rewrites rows with, in the process that calls it, or writes them."""
SOURCES = Path(waystation.__file__).parent


def rewriters(source: str) -> set[str]:
    """What of it a module uses that works with Delta tables."""
    nodes = list(ast.walk(ast.parse(source)))
    if not any(isinstance(node, ast.ImportFrom) and node.module == "deltalake" for node in nodes):
        return set()
    used = (node for node in nodes if isinstance(node, ast.Attribute))
    # Our own, whose tasks write.
    found = {node.attr for node in used if ast.unparse(node.value) != "rewriting"}
    found |= {
        name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names
    }
    return found & REWRITES


def test_nothing_of_delta_rs_rewrites_rows() -> None:
    by = {
        str(path.relative_to(SOURCES)): found
        for path in SOURCES.rglob("*.py")
        if (found := rewriters(path.read_text()))
    }
    # A program without Spark marks a deploy: it appends one row.
    assert by == {"pipeline/deploys.py": {"write_deltalake"}}


@pytest.mark.parametrize(
    "call", ["optimize.compact()", "delete('true')", "merge(rows, 'a = b')", "update({})"]
)
def test_whatever_of_delta_rs_rewrites_rows_is_found(call: str) -> None:
    assert rewriters(f"from deltalake import DeltaTable\nDeltaTable('x').{call}\n")
