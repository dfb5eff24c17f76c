"""Logs of Delta tables: tables opened for reading, the notes in their commits, and new files.

Opening a table reads its log from the last checkpoint on; bringing an opened one up to date reads
only the commits that have come since. So a table is opened once in a round instead of once for each
look.
"""

import datetime as dt
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec
from deltalake import DeltaTable

from waystation.core.errors import HistoryCut, WrongSchema
from waystation.pipeline import tables
from waystation.pipeline.storage import places
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.tables import RENAMED

_KEPT: ContextVar[dict[str, DeltaTable] | None] = ContextVar("kept_open", default=None)


@contextmanager
def kept_open() -> Generator[None]:
    """Keep the tables open that this thread reads in the block.

    No longer than a round, in which nobody puts another table in the place of one.
    """
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def opened(path: str) -> DeltaTable | None:
    """The newest version of a table, to be read at once; None when there is no table.

    Whoever writes opens a table of their own: this one may be brought up to date by the next look,
    and what came in between would not be seen as a conflict.
    """
    kept = _KEPT.get()
    if kept is not None and path in kept:
        kept[path].update_incremental()
        return kept[path]
    if not DeltaTable.is_deltatable(path):
        return None
    table = DeltaTable(path)
    require_present_names(table)
    if kept is not None:
        kept[path] = table
    return table


def old_names(table: DeltaTable) -> list[str]:
    """The columns of a table that have another name now."""
    return [field.name for field in table.schema().fields if field.name in RENAMED]


def require_present_names(table: DeltaTable) -> None:
    """Refuse a table of an older version, whose columns would look empty under their new names."""
    if names := old_names(table):
        place = table.table_uri.rstrip("/").rpartition("/")[2]
        raise WrongSchema(
            f"the table {place} has the column {', '.join(names)}, which is called "
            f"{', '.join(RENAMED[name] for name in names)} now: an older version of waystation has "
            "written it; `waystation pipeline rebuild` takes the history over, with everything in "
            "it"
        )


def files_of(path: str) -> Any:
    """The files of the newest version of a table, with their statistics; None: no table."""
    table: Any = opened(path)
    return None if table is None else pa.table(table.get_add_actions(flatten=True))


NOTES = "waystation"
"""The field of a commit that holds its notes."""
COMMITS_TO_REPLAY = 20
"""Most commits after a checkpoint: whoever opens a table reads each of them."""
VERSION_NOTE = "tables"
"""The note with the version of the tables that a commit was written by."""


def metadata(notes: Mapping[str, Any]) -> dict[str, str]:
    """Notes as a commit holds them, with the version of the tables."""
    return {NOTES: msgspec.json.encode({VERSION_NOTE: tables.VERSION, **notes}).decode()}


def last_note(path: str, wanted: str) -> Any:
    """The newest note of this name in the commits of a table; None when there is none."""
    table = opened(path)
    return None if table is None else noted(table, wanted)


def noted(table: DeltaTable, wanted: str) -> Any:
    """The newest note of this name up to the version of a table that was opened."""
    return next((each.value for each in every_noted(table, wanted)), None)


class Noted(NamedTuple):
    """A note of a commit."""

    value: Any
    at_ms: int
    """When it was written."""


def every_noted(table: DeltaTable, wanted: str) -> Iterator[Noted]:
    """The notes of this name up to the version of a table that was opened, the newest first."""
    seen = 0
    # They are nearly always in the last commits; the whole log is read only if not.
    for most in (10, 4 * COMMITS_TO_REPLAY, None):
        commits = table.history(limit=most)
        for each in commits[seen:]:
            notes = msgspec.json.decode(each.get(NOTES) or "{}")
            if wanted in notes:
                yield Noted(notes[wanted], each["timestamp"])
        if most is None or len(commits) < most:
            return
        seen = len(commits)


def version(path: str) -> int | None:
    """The newest version of a table; None when there is no table."""
    table = opened(path)
    return None if table is None else table.version()


class NewFile(NamedTuple):
    """A file with new rows."""

    path: str
    """Within the table."""
    rows: int


def new_files(path: str, *, after: int | None, until: int) -> list[NewFile]:
    """The files with rows that were added after one version and up to another.

    Files that only rewrite old rows, after a compaction or a deletion, are not among them.
    """
    if after is None:
        added: Any = DeltaTable(path, version=until).get_add_actions()
        rows = pa.table(added).select(["path", "num_records"]).to_pylist()
        return [NewFile(row["path"], row["num_records"] or 0) for row in rows]
    return [
        NewFile(action["path"], _records(action))
        for number in range(after + 1, until + 1)
        for action in _new_rows(path, number)
    ]


def old_files(path: str, *, after: int, until: int) -> set[str]:
    """The files with the rows that there were up to one version, as rewritten up to another.

    One that rewrites newer rows with them is none: those that it was made of still lie there.
    """
    files = {each.path for each in new_files(path, after=None, until=after)}
    for number in range(after + 1, until + 1):
        actions = _actions(path, number)
        gone = {action["remove"]["path"] for action in actions if "remove" in action}
        if gone and gone <= files:
            files -= gone
            files |= {action["add"]["path"] for action in actions if "add" in action}
    return files


def _records(action: dict[str, Any]) -> int:
    stats = msgspec.json.decode(action.get("stats") or "{}")
    return stats.get("numRecords", 0)


def changed_days(path: str, *, after: int | None, until: int) -> list[dt.date] | None:
    """The days whose rows have changed after one version and up to another; None: all may have."""
    if after is None:
        return None
    days: set[str] = set()
    try:
        for number in range(after + 1, until + 1):
            for action in _actions(path, number):
                change: dict[str, Any] = action.get("add") or action.get("remove") or {}
                if change.get("dataChange"):
                    days.add(change["partitionValues"]["date"])
    except HistoryCut:
        return None
    return sorted(map(dt.date.fromisoformat, days))


def _new_rows(path: str, number: int) -> Iterator[dict[str, Any]]:
    actions = _actions(path, number)
    # Commits that add rows carry a transaction; commits that only rewrite files do not.
    if any("txn" in action for action in actions):
        yield from (action["add"] for action in actions if "add" in action)


def _actions(path: str, number: int) -> list[dict[str, Any]]:
    """The actions of one commit."""
    files, root = places.filesystem(path)
    name = f"{root}/_delta_log/{number:020}.json"
    try:
        with files.open_input_stream(name) as log:
            return [msgspec.json.decode(line) for line in log.read().splitlines() if line]
    except FileNotFoundError:
        raise HistoryCut(
            f"the Delta log of version {number} of {path} is gone, so new events cannot be found; "
            "run `waystation pipeline rebuild`"
        ) from None
