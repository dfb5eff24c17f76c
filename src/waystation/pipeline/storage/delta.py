"""Delta tables without a jar: tasks write Parquet files, the driver makes one commit of them.

A commit carries (application, batch). Whoever writes the same batch again, after a crash or a kill,
finds it there and adds nothing; files that never made it into a commit are seen by nobody.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from waystation.pipeline.storage.arrow import schema_of
from waystation.pipeline.storage.parts import Part, filesystem
from waystation.pipeline.tables import Table

_NOTES = "waystation"


class Identity(NamedTuple):
    """Which batch of which application a commit is."""

    application: str
    batch: int


def commit(
    place: str,
    columns: StructType,
    parts: Iterable[Part],
    identity: Identity,
    *,
    partitions: Sequence[str] = (),
    notes: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> bool:
    """Make files part of the table, all or none; False when this batch was committed before."""
    parts = list(parts)
    table = opened(place, columns, partitions)
    before = table.transaction_version(identity.application)
    if before is not None and before >= identity.batch:
        _discard(place, parts)
        return False
    now = int(time.time() * 1000)
    actions = [
        AddAction(
            path=part.path,
            size=part.size,
            partition_values=dict(part.partition),
            modification_time=now,
            data_change=True,
            stats=msgspec.json.encode({"numRecords": part.rows}).decode(),
        )
        for part in parts
    ]
    table.create_write_transaction(
        actions=cast(Any, actions),
        mode="overwrite" if replace else "append",
        schema=_delta_schema(columns),
        partition_by=list(partitions) or None,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(identity.application, identity.batch)],
            custom_metadata={_NOTES: msgspec.json.encode({**(notes or {})}).decode()},
        ),
    )
    return True


def opened(place: str, columns: StructType, partitions: Sequence[str] = ()) -> DeltaTable:
    """The table at a place, made when there is none."""
    if not DeltaTable.is_deltatable(place):
        filesystem(place)[0].create_dir(filesystem(place)[1], recursive=True)
        DeltaTable.create(
            place, _delta_schema(columns), mode="ignore", partition_by=list(partitions) or None
        )
    return DeltaTable(place)


def last_notes(place: str, wanted: str) -> Any:
    """What the last commit that has a note of this name says in it; None when none has."""
    if not DeltaTable.is_deltatable(place):
        return None
    table = DeltaTable(place)
    # Nearly always it is among the last few; only then the rest of the log is read.
    for most in (10, None):
        for each in table.history(limit=most):
            notes = msgspec.json.decode(each.get(_NOTES) or "{}")
            if wanted in notes:
                return notes[wanted]
    return None


def last_batch(place: str, application: str) -> int | None:
    """The last batch of an application that the table holds."""
    if not DeltaTable.is_deltatable(place):
        return None
    return DeltaTable(place).transaction_version(application)


def read(spark: SparkSession, root: str, table: Table) -> DataFrame:
    """A table of the history that lies at `root`; without rows when it does not exist yet."""
    place = table.place(root)
    files = DeltaTable(place).file_uris() if DeltaTable.is_deltatable(place) else []
    if not files:
        # A relation that is known to be empty, so that Spark plans nothing for it.
        return spark.emptyDataFrame(table.schema)
    return spark.read.schema(table.schema).option("basePath", place).parquet(*files)


def read_here(root: str, table: Table, columns: Sequence[str], where: Any = None) -> Any:
    """Some columns of a small table as Arrow has them: Spark takes longer to begin than this."""
    place = table.place(root)
    if not DeltaTable.is_deltatable(place):
        return schema_of(table.schema).empty_table().select(columns)
    opened: Any = DeltaTable(place)
    return opened.to_pyarrow_dataset().to_table(columns=list(columns), filter=where)


def append(rows: DataFrame, root: str, table: Table, identity: Identity) -> None:
    """Add rows to a table of the history, once for each identity."""
    _write(rows, root, table, identity, "append")


def replace(rows: DataFrame, root: str, table: Table, identity: Identity) -> None:
    """Let a table of the history hold these rows and no others."""
    _write(rows, root, table, identity, "overwrite")


def _write(rows: DataFrame, root: str, table: Table, identity: Identity, mode: str) -> None:
    (
        rows.select(*table.names)
        .write.format("waystation.delta")
        .option("place", table.place(root))
        .option("partitions", ",".join(table.partitions))
        .option("application", identity.application)
        .option("batch", str(identity.batch))
        .mode(mode)
        .save()
    )


def _discard(place: str, parts: Sequence[Part]) -> None:
    files, root = filesystem(place)
    for part in parts:
        files.delete_file(f"{root}/{part.path}")


def _delta_schema(columns: StructType) -> Schema:
    return Schema.from_arrow(schema_of(columns))
