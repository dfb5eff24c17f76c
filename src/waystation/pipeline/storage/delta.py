"""Delta tables without a jar: tasks write Parquet files, the driver commits them.

A commit carries (application, batch), so a batch that is written again after a crash adds nothing.
Files that are in no commit are invisible.
"""

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import msgspec
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from waystation.core.errors import WrongSchema
from waystation.pipeline.storage.arrow import pa, pc, schema_of
from waystation.pipeline.storage.parts import Part, PartWriter, filesystem
from waystation.pipeline.tables import Table

_NOTES = "waystation"
FEW = 100_000
"""Rows that this process writes sooner than tasks, which have to be started first."""


class BatchId(NamedTuple):
    """Identity of a commit: the batch of an application."""

    application: str
    batch: int


def commit(
    path: str,
    columns: StructType,
    parts: Iterable[Part],
    batch: BatchId,
    *,
    partitions: Sequence[str] = (),
    notes: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> bool:
    """Commit files to a table, all or none; False when this batch was committed before.

    Files that are not committed are deleted, whatever the reason.
    """
    parts = list(parts)
    try:
        table = open_table(path, columns, partitions)
        if not _has_batch(table, batch):
            _add(table, columns, parts, batch, partitions, notes, replace)
            return True
    except CommitFailedError:
        discard(path, parts)
        # Another driver may have committed the same batch first.
        if not _has_batch(DeltaTable(path), batch):
            raise
    except Exception:
        discard(path, parts)
        raise
    discard(path, parts)
    return False


def open_table(path: str, columns: StructType, partitions: Sequence[str] = ()) -> DeltaTable:
    """Open the table at a path; create it if there is none, and add columns that it lacks."""
    if not DeltaTable.is_deltatable(path):
        filesystem(path)[0].create_dir(filesystem(path)[1], recursive=True)
        DeltaTable.create(
            path, _delta_schema(columns), mode="ignore", partition_by=list(partitions) or None
        )
    table = DeltaTable(path)
    if lacking := _lacking(table, columns):
        table.alter.add_columns(lacking)
        return DeltaTable(path)
    return table


def discard(path: str, parts: Iterable[Part]) -> None:
    """Delete files that were written and are in no commit."""
    parts = list(parts)
    if not parts:
        return
    files, root = filesystem(path)
    held: set[str] = set()
    if DeltaTable.is_deltatable(path):
        held = set(pa.table(DeltaTable(path).get_add_actions())["path"].to_pylist())
    for part in parts:
        if part.path not in held:
            with suppress(FileNotFoundError):
                files.delete_file(f"{root}/{part.path}")


def _has_batch(table: DeltaTable, batch: BatchId) -> bool:
    before = table.transaction_version(batch.application)
    return before is not None and before >= batch.batch


def _add(
    table: DeltaTable,
    columns: StructType,
    parts: Iterable[Part],
    batch: BatchId,
    partitions: Sequence[str],
    notes: Mapping[str, Any] | None,
    replace: bool,
) -> None:
    now = int(time.time() * 1000)
    actions = [
        AddAction(
            path=part.path,
            size=part.size,
            partition_values=dict(part.partition),
            modification_time=now,
            data_change=True,
            stats=part.stats,
        )
        for part in parts
    ]
    table.create_write_transaction(
        actions=cast(Any, actions),
        mode="overwrite" if replace else "append",
        schema=_delta_schema(columns),
        partition_by=list(partitions) or None,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(batch.application, batch.batch)],
            custom_metadata={_NOTES: msgspec.json.encode({**(notes or {})}).decode()},
        ),
    )


def _lacking(table: DeltaTable, columns: StructType) -> list[Field]:
    """The columns that a table does not have yet; refuses unknown columns and other types."""
    wanted = {field.name: field for field in _delta_schema(columns).fields}
    there = {field.name: field for field in table.schema().fields}
    name = table.table_uri.rstrip("/").rpartition("/")[2]
    if unknown := sorted(there.keys() - wanted.keys()):
        raise WrongSchema(
            f"the table {name} has the column {', '.join(unknown)}, which this version of "
            "waystation does not know: a newer version has written it, use that version"
        )
    for field in there.values():
        if field.type != wanted[field.name].type:
            raise WrongSchema(
                f"the table {name} has the column {field.name} as {_shown(field)}, wanted "
                f"{_shown(wanted[field.name])}; `waystation pipeline rebuild` builds the "
                "table again"
            )
    return [field for field in wanted.values() if field.name not in there]


def _shown(field: Field) -> str:
    kind = msgspec.json.decode(field.to_json())["type"]
    return kind if isinstance(kind, str) else msgspec.json.encode(kind).decode()


def last_note(path: str, wanted: str) -> Any:
    """The newest note of this name in the commits of a table; None when there is none."""
    if not DeltaTable.is_deltatable(path):
        return None
    table = DeltaTable(path)
    # It is nearly always in one of the last commits; the whole log is read only if not.
    for most in (10, None):
        for each in table.history(limit=most):
            notes = msgspec.json.decode(each.get(_NOTES) or "{}")
            if wanted in notes:
                return notes[wanted]
    return None


def last_batch(path: str, application: str) -> int | None:
    """The last batch of an application that was committed to a table."""
    if not DeltaTable.is_deltatable(path):
        return None
    return DeltaTable(path).transaction_version(application)


def read(
    spark: SparkSession, root: str, table: Table, *, days: Sequence[dt.date] | None = None
) -> DataFrame:
    """A table of the history at `root`; empty when it does not exist yet.

    With `days`, only files of these partitions are read.
    """
    path = table.path(root)
    files = files_of(path, days=days)
    if not files:
        # Known to be empty, so that Spark plans nothing for it.
        return spark.emptyDataFrame(table.schema)
    return spark.read.schema(table.schema).option("basePath", path).parquet(*files)


def files_of(path: str, *, days: Sequence[dt.date] | None = None) -> list[str]:
    """The files of a table, or those of some days; none when there is no table."""
    if not DeltaTable.is_deltatable(path) or (days is not None and not days):
        return []
    if days is None:
        return DeltaTable(path).file_uris()
    added = pa.table(DeltaTable(path).get_add_actions(flatten=True))
    mine = pc.is_in(added["partition.date"], pa.array(days, pa.date32()))
    return [f"{path}/{name}" for name in added["path"].filter(mine).to_pylist()]


def read_arrow(root: str, table: Table, columns: Sequence[str], where: Any = None) -> Any:
    """Some columns of a small table as an Arrow table, which is faster than a Spark job."""
    path = table.path(root)
    if not DeltaTable.is_deltatable(path):
        return schema_of(table.schema).empty_table().select(columns)
    opened: Any = DeltaTable(path)
    there: Any = opened.to_pyarrow_dataset()
    # A table of an older version may lack some.
    known = [name for name in columns if name in there.schema.names]
    found: Any = there.to_table(columns=known, filter=where)
    for name in columns:
        if name not in known:
            kind = schema_of(table.schema).field(name).type
            found = found.append_column(name, pa.nulls(found.num_rows, kind))
    return found.select(columns)


def save(
    rows: DataFrame, root: str, table: Table, batch: BatchId, *, replace: bool = False
) -> None:
    """Append rows to a table of the history, or replace it by them, once for each batch.

    Few rows are written by this process, many by Spark's tasks.
    """
    rows = rows.select(*table.names)
    few = to_arrow(rows.limit(FEW + 1))
    if few.num_rows > FEW:
        _save_by_tasks(rows, root, table, batch, "overwrite" if replace else "append")
        return
    path = table.path(root)
    with PartWriter(path, table.schema, table.partitions) as writer:
        for each in few.to_batches():
            if each.num_rows:
                writer.write(each)
    commit(path, table.schema, writer.parts, batch, partitions=table.partitions, replace=replace)


def to_arrow(rows: DataFrame) -> Any:
    """Rows as an Arrow table in this process."""
    return cast(Any, rows).toArrow()


def _save_by_tasks(rows: DataFrame, root: str, table: Table, batch: BatchId, mode: str) -> None:
    (
        rows.write.format("waystation.delta")
        .option("path", table.path(root))
        .option("partitions", ",".join(table.partitions))
        .option("application", batch.application)
        .option("batch", str(batch.batch))
        .mode(mode)
        .save()
    )


def _delta_schema(columns: StructType) -> Schema:
    return Schema.from_arrow(schema_of(columns))
