"""A DuckDB database whose views are the tables of a history, for other programs to open."""

import datetime as dt
import tempfile
from collections.abc import Iterable
from pathlib import Path

import duckdb

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.places import is_remote
from waystation.pipeline.tables import Table, every

MARK = "waystation_views"
"""The table that says what the views are of, by which such a database is known."""
_PARTS = ("ended_attempts", "ended_items")


def write_database(root: str, file: Path, more: Iterable[Table] = ()) -> list[str]:
    """Write a database with a view for each table, and return their names.

    It takes the place of one that was written before; a program that has that one open keeps it.
    """
    if is_remote(root):
        raise InvalidInput(f"the views name files, so the history must be a directory, got {root}")
    if not Path(root).is_dir():
        raise InvalidInput(f"there is no history at {root}")
    _require_ours(file)
    # Views name whole paths, so that the database can be opened from anywhere.
    place = str(Path(root).resolve())
    tables = [*every(), *OPEN, *more]
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
        fresh = Path(folder) / file.name
        with Engine(place, database=str(fresh)) as engine:
            engine.add_tables(more)
            engine.add_rows(MARK, pa.table({"history": [place], "written_at": [_now()]}))
            for table in tables:
                columns = {each.name: each.meaning for each in table.columns}
                engine.comment(table.name, table.meaning, columns)
            for part in _PARTS:
                engine.comment(part, "a part of `attempts` and `items`", {})
        fresh.replace(file)
    return sorted(table.name for table in tables)


def _require_ours(file: Path) -> None:
    """Refuse to replace anything but a database that was written here."""
    if not file.parent.is_dir():
        raise InvalidInput(f"wanted a file in a folder that exists, got {file}")
    if not file.exists():
        return
    try:
        with duckdb.connect(str(file), read_only=True) as known:
            marks = known.execute(
                "select count(*) from duckdb_tables() where table_name = ?", [MARK]
            ).fetchone()
    except duckdb.Error:
        marks = None
    if not marks or not marks[0]:
        raise InvalidInput(f"{file} is something else; views are written to a file of their own")


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
