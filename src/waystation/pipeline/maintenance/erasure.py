"""Making a history forget somebody: by the id of a subject, and by what was told about them.

A table's log names what its files hold at least and at most, and how rows were deleted. So the log
must forget, too.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from deltalake import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from waystation.core.errors import InvalidInput
from waystation.pipeline.bronze.sink import PLACES
from waystation.pipeline.history import History
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.silver.steps import STEPS, WHO
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import fs, pa
from waystation.pipeline.storage.delta import Identity
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, LEDGER, WORKERS, Table

SHORTEST = 4
"""Anything shorter is mentioned everywhere, and would take half of the history along."""
AT_ONCE = 200
"""Subjects that are named in one deletion."""

ORPHAN_H = 1
"""Hours after which a file that no commit names is taken for what a killed task left."""

_ENTRY = ("stream", "entry_id")


def of_subject(history: History, key: str) -> dict[str, int]:
    """Delete every row about one job, file or visitor; the rows gone from each table."""
    if not key:
        raise InvalidInput("wanted the key of a subject, got nothing")
    fold(history)
    about = f"subject = {_quoted(key)}"
    gone = {table.name: deleted(history.root, table, about) for table in _kept(history)}
    _no_longer_named(history.root, [key])
    return gone


def of_mentions(history: History, key: str) -> dict[str, int]:
    """Delete every row about whatever was told with this name, address or number in it.

    Events that mention it as a whole word say whose rows go: all those of the jobs, files and
    visitors that they are about.
    """
    if len(key) < SHORTEST:
        raise InvalidInput(
            f"wanted at least {SHORTEST} characters to look for in what was told, got {key!r}"
        )
    fold(history)
    told = history.events().where(_mentions(key))
    tables = _kept(history)
    gone = dict.fromkeys((table.name for table in tables), 0)
    subjects = told.where(F.col("subject").isNotNull()).select(*WHO).distinct().collect()
    # What happened to a queue as a whole is no subject's.
    entries = told.where(F.col("subject").isNull()).select(*_ENTRY).collect()
    for predicate in _named(WHO, subjects):
        for table in tables:
            gone[table.name] += deleted(history.root, table, predicate)
    for predicate in _named(_ENTRY, entries):
        gone[EVENTS.name] += deleted(history.root, EVENTS, predicate)
    if _is_there(history.root, WORKERS):
        gone[WORKERS.name] = deleted(history.root, WORKERS, f"worker = {_quoted(key)}")
    _no_longer_named(history.root, [key, *(row["subject"] for row in subjects)])
    return gone


def purge(history: History, tables: Sequence[Table]) -> None:
    """Delete the files that tables no longer need, and what their logs say of earlier days."""
    begins: dict[str, int] = {}
    for table in tables:
        place = table.place(history.root)
        _delete_files(place)
        begins[place] = _said_again(place, table)
    # Whoever folds reads in the log of the events what is new.
    fold(history)
    for place, version in begins.items():
        _cut_log(place, before=version)


def _no_longer_named(root: str, subjects: Sequence[str]) -> None:
    """Take ids out of the ledger; what was counted stays."""
    lists = delta.read_here(root, LEDGER, ("lost_ids",))["lost_ids"].to_pylist()
    named = {each for ids in lists for each in ids or ()}
    for subject in map(_quoted, named.intersection(subjects)):
        DeltaTable(LEDGER.place(root)).update(
            updates={"lost_ids": f"array_remove_all(lost_ids, {subject})"},
            predicate=f"array_has(lost_ids, {subject})",
        )


def _delete_files(place: str) -> None:
    """Delete what a table has held and holds no more, and what killed tasks have left."""
    files, root = delta.filesystem(place)
    table = DeltaTable(place)
    held = set(pa.table(table.get_add_actions())["path"].to_pylist())
    for path in _once_held(place) - held:
        with contextlib.suppress(FileNotFoundError):
            files.delete_file(f"{root}/{path}")
    # Nobody's, unless somebody is writing them just now.
    table.vacuum(
        retention_hours=ORPHAN_H, dry_run=False, enforce_retention_duration=False, full=True
    )


def _once_held(place: str) -> set[str]:
    files, _ = delta.filesystem(place)
    found: set[str] = set()
    for each in _log(place):
        if each.extension == "json":
            with files.open_input_stream(each.path) as log:
                actions = [msgspec.json.decode(line) for line in log.read().splitlines() if line]
            found |= {action["remove"]["path"] for action in actions if "remove" in action}
    return found


def _said_again(place: str, table: Table) -> int:
    """Say once more what earlier entries of a log are read for; the version that says it."""
    noted = delta.last_notes(place, PLACES)
    identity = Identity("purge", DeltaTable(place).version())
    notes = {} if noted is None else {PLACES: noted}
    delta.commit(place, table.schema, [], identity, partitions=table.partitions, notes=notes)
    return DeltaTable(place).version()


def _cut_log(place: str, *, before: int) -> None:
    """Delete what a log says up to a version; from there on it is whole without that."""
    DeltaTable(place).create_checkpoint()
    files, _ = delta.filesystem(place)
    for each in _log(place):
        number = each.base_name.partition(".")[0]
        if number.isdigit() and int(number) < before:
            files.delete_file(each.path)


def _log(place: str) -> list[Any]:
    files, root = delta.filesystem(place)
    found: list[Any] = files.get_file_info(fs.FileSelector(f"{root}/_delta_log"))
    return found


def _mentions(key: str) -> Column:
    # Java understands what Python has escaped.
    pattern = rf"(?<![\w.@-]){re.escape(key)}(?![\w@-])"
    said = F.exists(F.map_values("fields"), lambda value: value.rlike(pattern))
    return said | (F.col("subject") == key) | (F.col("worker") == key)


def _named(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for first in range(0, len(rows), AT_ONCE):
        yield " OR ".join(f"({_is(columns, row)})" for row in rows[first : first + AT_ONCE])


def _is(columns: Sequence[str], row: Sequence[str]) -> str:
    pairs = zip(columns, row, strict=True)
    return " AND ".join(f"{name} = {_quoted(value)}" for name, value in pairs)


def _kept(history: History) -> list[Table]:
    tables = (EVENTS, ATTEMPTS, ITEMS, STEPS)
    return [table for table in tables if _is_there(history.root, table)]


def _is_there(root: str, table: Table) -> bool:
    return DeltaTable.is_deltatable(table.place(root))


def deleted(root: str, table: Table, predicate: str) -> int:
    """Delete rows; how many there were."""
    told = DeltaTable(table.place(root)).delete(predicate)
    return int(told.get("num_deleted_rows") or 0)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
