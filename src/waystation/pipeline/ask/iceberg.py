"""Iceberg metadata of the tables of a history, in a catalog that other programs open by name.

Only metadata is written: it names the Parquet files that the Delta tables have. The day of a row is
in no file but in the name of its folder; Iceberg's readers take it from the metadata.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestamptzType,
)
from sqlalchemy import URL

from waystation.core.errors import HistoryError, InvalidInput
from waystation.pipeline.ask.active_files import ActiveFile, Contents, contents
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.storage.arrow import pq
from waystation.pipeline.storage.places import is_remote
from waystation.pipeline.tables import Table, every

FOLDER = "iceberg"
"""Where the catalog and the metadata are kept in a history."""
CATALOG = "catalog.db"
KEEP = dt.timedelta(hours=1)
"""How long metadata that is no longer used is kept for programs that have it open."""

_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PLAIN: Mapping[str, IcebergType] = {
    "string": StringType(),
    "integer": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp": TimestamptzType(),
    "date": DateType(),
    "binary": BinaryType(),
}


def write_catalog(root: str, more: Iterable[Table] = ()) -> list[str]:
    """Bring the Iceberg metadata of every table up to its Delta table, and return their names."""
    if is_remote(root):
        raise InvalidInput(f"Iceberg metadata is written for a directory only, got {root}")
    if not Path(root).is_dir():
        raise InvalidInput(f"there is no history at {root}")
    place = Path(root).resolve()
    (place / FOLDER).mkdir(exist_ok=True)
    names: list[str] = []
    with opened(place) as catalog:
        for table in (*every(), *OPEN, *more):
            found = contents(table.path(str(place)))
            if found is None:
                continue
            name = f"{table.layer}.{table.name}"
            try:
                _bring_up(_created(catalog, name, table, found), table, found)
            except CommitFailedException:
                raise HistoryError(
                    "somebody else wrote the Iceberg metadata at the same time; run it again"
                ) from None
            names.append(name)
    return names


def opened(place: Path) -> SqlCatalog:
    """The catalog of a history."""
    uri = URL.create("sqlite", database=str(place / FOLDER / CATALOG)).render_as_string()
    return SqlCatalog("history", uri=uri, warehouse=_uri(str(place / FOLDER)))


def _created(catalog: Catalog, name: str, table: Table, found: Contents) -> IcebergTable:
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    schema = _schema(table, found)
    days = found.table.metadata().partition_columns
    spec = PartitionSpec(
        *(
            PartitionField(schema.find_field(day).field_id, 1000 + number, IdentityTransform(), day)
            for number, day in enumerate(days)
        )
    )
    properties = {**_PROPERTIES, "comment": table.meaning}
    return catalog.create_table_if_not_exists(
        name, schema, partition_spec=spec, properties=properties
    )


def _bring_up(iceberg: IcebergTable, table: Table, found: Contents) -> None:
    """Let a table have the columns and the files of its Delta table."""
    if iceberg.name_mapping() is None:
        # Delta's files have no ids of columns: they are known by their names.
        mapping = iceberg.schema().name_mapping.model_dump_json()
        with iceberg.transaction() as change:
            change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    if {each.name for each in iceberg.schema().fields} != found.columns.keys():
        with iceberg.update_schema() as columns:
            columns.union_by_name(_schema(table, found))
    present = {task.file.file_path: task.file for task in iceberg.scan().plan_files()}
    wanted = {_uri(file.path): file for file in found.files}
    gone = [file for path, file in present.items() if path not in wanted]
    new = [file for path, file in wanted.items() if path not in present]
    if gone or new:
        with iceberg.transaction() as change:
            update = change.update_snapshot({"delta-version": str(found.table.version())})
            with update.overwrite() if gone else update.merge_append() as files:
                for file in gone:
                    files.delete_data_file(file)
                for file in new:
                    files.append_data_file(_data_file(file, iceberg))
    _clean(iceberg)


def _data_file(file: ActiveFile, iceberg: IcebergTable) -> DataFile:
    rows: int = file.rows or pq.read_metadata(file.path).num_rows
    is_by_day = bool(iceberg.spec().fields)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=_uri(file.path),
        file_format=FileFormat.PARQUET,
        partition=Record(*([_days(file.date)] if is_by_day else [])),
        record_count=rows,
        file_size_in_bytes=file.size,
        lower_bounds=dict(_bounds(iceberg, file.least)),
        upper_bounds=dict(_bounds(iceberg, file.most, add_us=1_000)),
        spec_id=iceberg.spec().spec_id,
    )


def _bounds(
    iceberg: IcebergTable, values: Mapping[str, Any], add_us: int = 0
) -> Iterator[tuple[int, bytes]]:
    """The least or most of each column, without texts: what is forgotten must not stay here.

    Delta cuts instants to milliseconds, so the last one may be a little later than it says.
    """
    for field in iceberg.schema().fields:
        match field.field_type, values.get(field.name):
            case IntegerType() | LongType(), int(number):
                yield field.field_id, to_bytes(field.field_type, number)
            case TimestamptzType(), dt.datetime() as at:
                micros = (at - _EPOCH) // dt.timedelta(microseconds=1)
                yield field.field_id, to_bytes(field.field_type, micros + add_us)
            case _:
                pass


def _clean(iceberg: IcebergTable) -> None:
    """Delete metadata that nobody has needed for a while."""
    before = dt.datetime.now(dt.UTC) - KEEP
    current = iceberg.metadata.current_snapshot_id
    old = [
        each.snapshot_id
        for each in iceberg.metadata.snapshots
        if each.timestamp_ms < before.timestamp() * 1000 and each.snapshot_id != current
    ]
    if old:
        iceberg.maintenance.expire_snapshots().by_ids(old).commit()
    used = {iceberg.metadata_location}
    used |= {each.metadata_file for each in iceberg.metadata.metadata_log}
    for snapshot in iceberg.metadata.snapshots:
        used.add(snapshot.manifest_list)
        used |= {each.manifest_path for each in snapshot.manifests(iceberg.io)}
    for file in Path(iceberg.location().removeprefix("file://"), "metadata").iterdir():
        if _uri(str(file)) not in used and file.stat().st_mtime < before.timestamp():
            file.unlink(missing_ok=True)


def _schema(table: Table, found: Contents) -> Schema:
    """The columns of a table, with the meanings that they are declared with."""
    meanings = {column.name: column.meaning for column in table.columns}
    ids = count(1)
    return Schema(*_fields(found.table.schema().fields, meanings, ids))


def _fields(
    columns: Sequence[Any], meanings: Mapping[str, str], ids: Iterator[int]
) -> Iterator[NestedField]:
    for column in columns:
        kind = msgspec.json.decode(column.to_json())["type"]
        yield NestedField(
            next(ids),
            column.name,
            _type(kind, ids),
            required=False,
            doc=meanings.get(column.name),
        )


def _type(kind: Any, ids: Iterator[int]) -> IcebergType:
    match kind:
        case str() if kind in _PLAIN:
            return _PLAIN[kind]
        case {"type": "array", "elementType": element}:
            return ListType(next(ids), _type(element, ids), element_required=False)
        case {"type": "map", "keyType": key, "valueType": value}:
            key_id, value_id = next(ids), next(ids)
            return MapType(key_id, _type(key, ids), value_id, _type(value, ids), False)
        case _:
            raise InvalidInput(f"Iceberg knows no column of the type {kind}")


def _days(day: dt.date | None) -> int | None:
    return None if day is None else (day - _EPOCH.date()).days


def _uri(path: str) -> str:
    return f"file://{path}"
