"""Notes in the commits of a Delta table."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from deltalake import DeltaTable

from waystation.pipeline import tables
from waystation.pipeline.storage.opened import opened

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
