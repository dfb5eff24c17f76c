"""Changes of a Delta table: the files with new rows since a version."""

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from deltalake import DeltaTable

from waystation.core.errors import HistoryCut
from waystation.pipeline.storage import places
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.opened import opened


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
