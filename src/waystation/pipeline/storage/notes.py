"""Notes in the commits of a Delta table."""

from collections.abc import Mapping
from typing import Any

import msgspec
from deltalake import DeltaTable

from waystation.pipeline import tables
from waystation.pipeline.storage.opened import opened

NOTES = "waystation"
"""The field of a commit that holds its notes."""
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
    # It is nearly always in one of the last commits; the whole log is read only if not.
    for most in (10, None):
        for each in table.history(limit=most):
            notes = msgspec.json.decode(each.get(NOTES) or "{}")
            if wanted in notes:
                return notes[wanted]
    return None
