"""Making a history forget somebody: by the id of a subject, and by what was told about them."""

import re
from collections.abc import Iterator, Sequence

from deltalake import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from waystation.core.errors import InvalidInput
from waystation.pipeline.history import History
from waystation.pipeline.silver.fold import fold
from waystation.pipeline.silver.steps import STEPS, WHO
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table

SHORTEST = 4
"""Anything shorter is mentioned everywhere, and would take half of the history along."""
AT_ONCE = 200
"""Subjects that are named in one deletion."""

_ENTRY = ("stream", "entry_id")


def of_subject(history: History, key: str) -> dict[str, int]:
    """Delete every row about one job, file or visitor; the rows gone from each table."""
    if not key:
        raise InvalidInput("wanted the key of a subject, got nothing")
    fold(history)
    about = f"subject = {_quoted(key)}"
    return {table.name: deleted(history.root, table, about) for table in _kept(history)}


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
    return gone


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
    return [t for t in tables if DeltaTable.is_deltatable(t.place(history.root))]


def deleted(root: str, table: Table, predicate: str) -> int:
    """Delete rows; how many there were."""
    told = DeltaTable(table.place(root)).delete(predicate)
    return int(told.get("num_deleted_rows") or 0)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
