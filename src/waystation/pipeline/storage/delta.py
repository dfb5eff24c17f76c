"""Delta tables without a jar: tasks write Parquet files, the driver makes one commit of them.

A commit carries (application, batch). Whoever writes the same batch again, after a crash or a kill,
finds it there and adds nothing; files that never made it into a commit are seen by nobody.
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
    """Make files part of the table, all or none; False when this batch was committed before.

    Files that do not become part of it are deleted, whatever stood in their way.
    """
    parts = list(parts)
    try:
        table = opened(place, columns, partitions)
        if not _holds(table, identity):
            _add(table, columns, parts, identity, partitions, notes, replace)
            return True
    except CommitFailedError:
        discard(place, parts)
        # Another driver was faster with the same batch.
        if not _holds(DeltaTable(place), identity):
            raise
    except Exception:
        discard(place, parts)
        raise
    discard(place, parts)
    return False


def opened(place: str, columns: StructType, partitions: Sequence[str] = ()) -> DeltaTable:
    """The table at a place, made when there is none; columns that it lacks are added to it."""
    if not DeltaTable.is_deltatable(place):
        filesystem(place)[0].create_dir(filesystem(place)[1], recursive=True)
        DeltaTable.create(
            place, _delta_schema(columns), mode="ignore", partition_by=list(partitions) or None
        )
    table = DeltaTable(place)
    if lacking := _lacking(table, columns):
        table.alter.add_columns(lacking)
        return DeltaTable(place)
    return table


def discard(place: str, parts: Iterable[Part]) -> None:
    """Delete files that were written and that no commit names."""
    parts = list(parts)
    if not parts:
        return
    files, root = filesystem(place)
    held: set[str] = set()
    if DeltaTable.is_deltatable(place):
        held = set(pa.table(DeltaTable(place).get_add_actions())["path"].to_pylist())
    for part in parts:
        if part.path not in held:
            with suppress(FileNotFoundError):
                files.delete_file(f"{root}/{part.path}")


def _holds(table: DeltaTable, identity: Identity) -> bool:
    before = table.transaction_version(identity.application)
    return before is not None and before >= identity.batch


def _add(
    table: DeltaTable,
    columns: StructType,
    parts: Iterable[Part],
    identity: Identity,
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
            app_transactions=[Transaction(identity.application, identity.batch)],
            custom_metadata={_NOTES: msgspec.json.encode({**(notes or {})}).decode()},
        ),
    )


def _lacking(table: DeltaTable, columns: StructType) -> list[Field]:
    """The columns that a table does not have yet; refuses a table that has others than these."""
    wanted = {field.name: field for field in _delta_schema(columns).fields}
    there = {field.name: field for field in table.schema().fields}
    name = table.table_uri.rstrip("/").rpartition("/")[2]
    if unknown := sorted(there.keys() - wanted.keys()):
        raise WrongSchema(
            f"the table {name} has the column {', '.join(unknown)}, which this version of "
            "waystation does not know: it was written by a newer version, and only that one may go "
            "on with it"
        )
    for field in there.values():
        if field.type != wanted[field.name].type:
            raise WrongSchema(
                f"the table {name} has the column {field.name} as {_shown(field)}, wanted "
                f"{_shown(wanted[field.name])}; `waystation pipeline rebuild` makes silver and "
                "gold anew"
            )
    return [field for field in wanted.values() if field.name not in there]


def _shown(field: Field) -> str:
    kind = msgspec.json.decode(field.to_json())["type"]
    return kind if isinstance(kind, str) else msgspec.json.encode(kind).decode()


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


def read(
    spark: SparkSession, root: str, table: Table, *, days: Sequence[dt.date] | None = None
) -> DataFrame:
    """A table of the history that lies at `root`; without rows when it does not exist yet.

    Of a table that is cut by `date`, only the files of some days are handed to Spark.
    """
    place = table.place(root)
    files = files_of(place, days=days)
    if not files:
        # A relation that is known to be empty, so that Spark plans nothing for it.
        return spark.emptyDataFrame(table.schema)
    return spark.read.schema(table.schema).option("basePath", place).parquet(*files)


def files_of(place: str, *, days: Sequence[dt.date] | None = None) -> list[str]:
    """The files of a table that is there, or those of some days."""
    if not DeltaTable.is_deltatable(place) or (days is not None and not days):
        return []
    if days is None:
        return DeltaTable(place).file_uris()
    added = pa.table(DeltaTable(place).get_add_actions(flatten=True))
    mine = pc.is_in(added["partition.date"], pa.array(days, pa.date32()))
    return [f"{place}/{path}" for path in added["path"].filter(mine).to_pylist()]


def read_here(root: str, table: Table, columns: Sequence[str], where: Any = None) -> Any:
    """Some columns of a small table as Arrow has them: Spark takes longer to begin than this."""
    place = table.place(root)
    if not DeltaTable.is_deltatable(place):
        return schema_of(table.schema).empty_table().select(columns)
    opened: Any = DeltaTable(place)
    there: Any = opened.to_pyarrow_dataset()
    # A table of an older version may lack some.
    known = [name for name in columns if name in there.schema.names]
    found: Any = there.to_table(columns=known, filter=where)
    for name in columns:
        if name not in known:
            kind = schema_of(table.schema).field(name).type
            found = found.append_column(name, pa.nulls(found.num_rows, kind))
    return found.select(columns)


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


def _delta_schema(columns: StructType) -> Schema:
    return Schema.from_arrow(schema_of(columns))
