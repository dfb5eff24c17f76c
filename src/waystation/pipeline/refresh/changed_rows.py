"""Rows that a fold adds to a table or takes back, in files that gold is counted from.

They lie next to the tables of silver. The commit that makes a batch count names them in a note.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from waystation.pipeline.storage.parts import Part
from waystation.pipeline.tables import Table

CHANGES_NOTE = "changes"
"""The note with the files that hold the changes of a batch, in the commit that makes it count."""
FOLDER = "_changes"

Files = Mapping[str, Sequence[Part]]


def added_rows(name: str) -> str:
    """The column of rows that a table has got."""
    return f"added_{name}"


def removed_rows(name: str) -> str:
    """The column of rows that it has no more."""
    return f"removed_{name}"


def change_files(name: str, table: Table) -> Table:
    """Files next to a table's, of rows that are about to change it."""
    return msgspec.structs.replace(table, name=f"{FOLDER}/{name}", partitions=())


def noted(written: Files, columns: Sequence[str], batch: int, before: int | None) -> dict[str, Any]:
    """The note on the changes of a batch: the version that it goes on from, and the files."""
    files = {name: [part.row for part in written.get(name, ())] for name in columns}
    return {CHANGES_NOTE: {"batch": batch, "after": before, "files": files}}
