"""Active files of a Delta table, from its log, and their rows without Spark.

DuckDB reads files of an object store through Arrow: its own way there is an extension that it would
have to download.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from waystation.core.errors import InvalidInput
from waystation.pipeline.storage.arrow import dataset, pa, pq
from waystation.pipeline.storage.places import filesystem, is_remote, unreadable
from waystation.pipeline.storage.table_log import require_present_names
from waystation.pipeline.tables import Table


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


AT_ONCE = 16
"""Footers that are read at a time."""


def remote_files(table: DeltaTable, files: Sequence[ActiveFile], wanted: RowFilter) -> Any:
    """A dataset of some files of a table, of the row groups that can hold wanted rows."""
    form = dataset.ParquetFileFormat()

    def fragment(file: ActiveFile) -> Any:
        source, path = filesystem(file.path)
        day = None if file.date is None else dataset.field("date") == pa.scalar(file.date)
        whole = form.make_fragment(path, source, partition_expression=day)
        return _subset(whole, wanted) if wanted.texts else whole

    with ThreadPoolExecutor(AT_ONCE) as pool:
        fragments = [each for each in pool.map(fragment, files) if each is not None]
    return dataset.FileSystemDataset(fragments, _with_views(pa.schema(table.schema())), form)


def _subset(fragment: Any, wanted: RowFilter) -> Any:
    """The row groups that can hold wanted rows; None when there are none."""
    footer = fragment.metadata
    groups = [number for number in range(footer.num_row_groups) if _may_be(wanted, footer, number)]
    return fragment.subset(row_group_ids=groups) if groups else None


def _may_be(wanted: RowFilter, footer: Any, number: int) -> bool:
    group = footer.row_group(number)
    columns = (group.column(each) for each in range(group.num_columns))
    known = {each.path_in_schema: each.statistics for each in columns}
    return all(
        wanted.may_be_between(column, *_bounds(known.get(column))) for column in wanted.texts
    )


def _bounds(statistics: Any) -> tuple[str | None, str | None]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    least, most = statistics.min, statistics.max
    return (least, most) if isinstance(least, str) and isinstance(most, str) else (None, None)


def _with_views(schema: Any) -> Any:
    """The same columns, with texts of the type that DuckDB does not compare in Arrow.

    Arrow cannot compare the texts of files that were compacted with those of others.
    """
    return pa.schema(
        [pa.field(each.name, pa.string_view()) if _is_text(each.type) else each for each in schema]
    )


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def read_rows(
    root: str,
    table: Table,
    columns: Sequence[str],
    among: Callable[[ActiveFile], bool] = lambda _: True,
) -> list[dict[str, Any]]:
    """Some columns of a table, or of some of its files; null where a file has no such column."""
    found: list[dict[str, Any]] = []
    for file in filter(among, active_files(table.path(root))):
        files, path = filesystem(file.path)
        with files.open_input_file(path) as opened:
            rows = pq.ParquetFile(opened).read(columns=list(columns)).to_pylist()
        found += [{name: row.get(name) for name in columns} for row in rows]
    return found
