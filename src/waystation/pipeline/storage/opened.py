"""Delta tables opened for reading, once in a round instead of once for each look.

Opening a table reads its log from the last checkpoint on; bringing an opened one up to date reads
only the commits that have come since.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from deltalake import DeltaTable

from waystation.core.errors import WrongSchema
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
