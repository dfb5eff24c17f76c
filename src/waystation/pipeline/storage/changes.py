"""What a table has gained since a version, file by file."""

from collections.abc import Iterator
from typing import Any

import msgspec
from deltalake import DeltaTable

from waystation.core.errors import HistoryCut
from waystation.pipeline.storage import delta


def version(place: str) -> int | None:
    """The newest version of a table; None when there is no table."""
    return DeltaTable(place).version() if DeltaTable.is_deltatable(place) else None


def gained(place: str, *, after: int | None, until: int) -> list[str]:
    """The files that hold the rows told after one version and up to another.

    Files that only hold old rows anew, after a compaction or a deletion, are not among them.
    """
    if after is None:
        return DeltaTable(place, version=until).file_uris()
    return [
        f"{place}/{action['path']}"
        for number in range(after + 1, until + 1)
        for action in _new_rows(place, number)
    ]


def _new_rows(place: str, number: int) -> Iterator[dict[str, Any]]:
    files, root = delta.filesystem(place)
    name = f"{root}/_delta_log/{number:020}.json"
    try:
        with files.open_input_stream(name) as log:
            actions = [msgspec.json.decode(line) for line in log.read().splitlines() if line]
    except FileNotFoundError:
        raise HistoryCut(
            f"wanted the log of version {number} of {place}, which is gone; "
            "`waystation pipeline rebuild` makes the folds anew"
        ) from None
    # Whoever adds rows says in whose name; whoever only rewrites files does not.
    if any("txn" in action for action in actions):
        yield from (action["add"] for action in actions if "add" in action)
