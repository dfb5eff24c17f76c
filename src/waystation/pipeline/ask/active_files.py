"""Active files of a Delta table, from its log."""

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from waystation.core.errors import InvalidInput
from waystation.pipeline.storage.places import is_remote
from waystation.pipeline.storage.table_log import require_present_names
from waystation.pipeline.storage.unreadable import unreadable

pa: Any = pyarrow


class ActiveFile(msgspec.Struct, frozen=True):
    """A file of the newest version of a table, and what its statistics say."""

    path: str
    rows: int
    size: int
    date: dt.date | None
    """The day that its rows are of; None in a table without days."""
    least: Mapping[str, Any]
    most: Mapping[str, Any]
    """Minimum and maximum of columns, where they are known."""


class RowFilter(msgspec.Struct, frozen=True):
    """What a row must hold to be wanted: spares reading what cannot hold such a row."""

    texts: Mapping[str, Sequence[str]] = {}
    """Columns, and the texts of which each must have one."""
    since: dt.date | None = None
    """The first day."""
    until: dt.date | None = None
    """The last day."""

    def may_be_in(self, file: ActiveFile) -> bool:
        """Whether a wanted row can be in a file."""
        if file.date is not None:
            first, last = self.since or file.date, self.until or file.date
            if not first <= file.date <= last:
                return False
        return all(
            self.may_be_between(column, file.least.get(column), file.most.get(column))
            for column in self.texts
        )

    def may_be_between(self, column: str, least: str | None, most: str | None) -> bool:
        """Whether a column can hold a wanted text between two others, where these are known."""
        return any(
            (least is None or least <= text) and (most is None or text <= most)
            for text in self.texts[column]
        )


EVERYTHING = RowFilter()


class Contents(msgspec.Struct, frozen=True):
    """The newest version of a table."""

    table: DeltaTable
    files: Sequence[ActiveFile]

    @property
    def columns(self) -> dict[str, str]:
        """Names and types of the columns, as DuckDB writes them."""
        return {each.name: _kind(_json(each)) for each in self.table.schema().fields}

    @property
    def partitions(self) -> Sequence[str]:
        """The columns whose values are in the names of folders."""
        return self.table.metadata().partition_columns


def contents(path: str) -> Contents | None:
    """The newest version of a table, whose log is read once; None when there is no table."""
    # Opening a directory that does not exist would create it.
    if not is_remote(path) and not Path(path, "_delta_log").is_dir():
        return None
    try:
        table = DeltaTable(path)
        added: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise unreadable(error, path) from error
    require_present_names(table)
    files = [
        ActiveFile(
            path=f"{path}/{each['path']}",
            rows=each.get("num_records") or 0,
            size=each.get("size_bytes") or 0,
            date=each.get("partition.date"),
            least=_statistics(each, "min."),
            most=_statistics(each, "max."),
        )
        for each in added
    ]
    return Contents(table, files)


def active_files(path: str) -> Sequence[ActiveFile]:
    """The files of a table; none when it does not exist."""
    found = contents(path)
    return found.files if found else ()


_KINDS = {
    "string": "VARCHAR",
    "integer": "INTEGER",
    "int": "INTEGER",
    "long": "BIGINT",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "date": "DATE",
    "binary": "BLOB",
    "array<string>": "VARCHAR[]",
    "map<string,string>": "MAP(VARCHAR, VARCHAR)",
    "map<bigint,bigint>": "MAP(BIGINT, BIGINT)",
}


def duckdb_type(kind: str) -> str:
    """A column type of `tables`, as DuckDB writes it."""
    return _KINDS[kind]


def _json(field: Any) -> Any:
    return msgspec.json.decode(field.to_json())["type"]


def _kind(kind: Any) -> str:
    match kind:
        case str() if kind in _KINDS:
            return _KINDS[kind]
        case {"type": "array", "elementType": element}:
            return f"{_kind(element)}[]"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP({_kind(key)}, {_kind(value)})"
        case _:
            raise InvalidInput(f"questions know no column of the type {kind}; only Spark does")


def _statistics(action: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in action.items()
        if name.startswith(prefix) and value is not None
    }
