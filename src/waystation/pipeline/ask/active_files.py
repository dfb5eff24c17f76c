"""Active files of a Delta table, from its log."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
from deltalake import DeltaTable

from waystation.core.errors import InvalidInput

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

    def may_hold(self, column: str, value: str) -> bool:
        """Whether a row with this text in a column can be in the file."""
        low, high = self.least.get(column), self.most.get(column)
        return (low is None or low <= value) and (high is None or value <= high)


def exists(path: str) -> bool:
    """Whether there is a table at a path."""
    return DeltaTable.is_deltatable(path)


def active_files(path: str) -> list[ActiveFile]:
    """The files of a table; none when it does not exist."""
    if not exists(path):
        return []
    table = DeltaTable(path)
    added: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
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


def columns_of(path: str) -> dict[str, str]:
    """Names and types of a table's columns, as DuckDB writes them."""
    return {field.name: _kind(_json(field)) for field in DeltaTable(path).schema().fields}


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
            raise InvalidInput(f"questions know no column of the type {kind}; use --engine spark")


def _statistics(action: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in action.items()
        if name.startswith(prefix) and value is not None
    }
