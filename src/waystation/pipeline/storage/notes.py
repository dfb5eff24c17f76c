"""Notes in the commits of a Delta table."""

from typing import Any

import msgspec
from deltalake import DeltaTable

NOTES = "waystation"
"""The field of a commit that holds its notes."""


def last_note(path: str, wanted: str) -> Any:
    """The newest note of this name in the commits of a table; None when there is none."""
    return noted(DeltaTable(path), wanted) if DeltaTable.is_deltatable(path) else None


def noted(table: DeltaTable, wanted: str) -> Any:
    """The newest note of this name up to the version of a table that was opened."""
    # It is nearly always in one of the last commits; the whole log is read only if not.
    for most in (10, None):
        for each in table.history(limit=most):
            notes = msgspec.json.decode(each.get(NOTES) or "{}")
            if wanted in notes:
                return notes[wanted]
    return None
