"""Delta tables without a jar: tasks write Parquet files, the driver makes one commit of them.

A commit carries (application, batch). Whoever writes the same batch again, after a crash or a kill,
finds it there and adds nothing; files that never made it into a commit are seen by nobody.
"""

import contextlib
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import msgspec
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from waystation.core.errors import InvalidInput
from waystation.pipeline.arrow import Batch, fs, pa, pc, pq, schema_of
from waystation.pipeline.tables import Table

GROUP_ROWS = 131_072
"""Rows that a task holds before it writes them: what bounds its memory."""
GROUP_BYTES = 64 * 2**20
MOST_OPEN = 16
"""Partitions that a task writes to at once."""

_NOTES = "waystation"


class Part(NamedTuple):
    """A file that a task has written and nobody has committed yet."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None]


class Identity(NamedTuple):
    """Which batch of which application a commit is."""

    application: str
    batch: int


class PartWriter:
    """Writes rows into files of a table, one file for each partition it meets.

    Used in a `with`, it takes its files away again when something goes wrong inside.
    """

    def __init__(self, place: str, columns: StructType, partitions: Sequence[str]) -> None:
        self._files, self._root = filesystem(place)
        self._schema = schema_of(columns)
        self._by = list(partitions)
        self._open: dict[tuple[Any, ...], _Part] = {}
        self.parts: list[Part] = []

    def write(self, batch: Batch) -> None:
        """Take rows; they are on disk when `close` has returned."""
        for values, rows in self._cut(_as(batch, self._schema)):
            if values not in self._open:
                if len(self._open) >= MOST_OPEN:
                    self.close()
                self._open[values] = _Part(
                    self._files, self._root, dict(zip(self._by, values, strict=True))
                )
            self._open[values].write(rows)

    def close(self) -> list[Part]:
        """Finish the files and say which they are."""
        self.parts += [part.close() for part in self._open.values()]
        self._open = {}
        return self.parts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        try:
            if failure is None:
                self.close()
        finally:
            for part in self._open.values():
                part.discard()

    def _cut(self, batch: Batch) -> Iterator[tuple[tuple[Any, ...], Batch]]:
        cut: list[tuple[tuple[Any, ...], Batch]] = [((), batch)]
        for name in self._by:
            cut = [
                ((*values, value), part)
                for values, rows in cut
                for value, part in _by_value(rows, name)
            ]
        for values, rows in cut:
            if rows.num_rows:
                yield values, rows.drop_columns(self._by) if self._by else rows


def _folder(value: str | None) -> str:
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    if not re.fullmatch(r"[\w.-]+", value, re.ASCII):
        # Readers disagree about how anything else is written in a path.
        raise InvalidInput(f"a partition must be a plain word, number or date, got {value!r}")
    return value


def _by_value(rows: Batch, name: str) -> Iterator[tuple[Any, Batch]]:
    column = rows.column(name)
    values = pc.unique(column)
    if len(values) == 1:
        yield values[0].as_py(), rows
        return
    for value in values:
        mine = pc.equal(column, value) if value.is_valid else pc.is_null(column)
        yield value.as_py(), rows.filter(mine)


class _Part:
    """One file being written."""

    def __init__(self, files: Any, root: str, partition: Mapping[str, Any]) -> None:
        self._files = files
        self._partition = {
            name: None if value is None else str(value) for name, value in partition.items()
        }
        folders = [f"{name}={_folder(value)}" for name, value in self._partition.items()]
        self._path = "/".join([*folders, f"part-{uuid.uuid4()}.parquet"])
        self._full = f"{root}/{self._path}"
        self._held: list[Batch] = []
        self._held_rows = self._held_bytes = self._rows = 0
        self._writer: Any = None
        self._sink: Any = None

    def write(self, rows: Batch) -> None:
        self._held.append(rows)
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        if self._held_rows >= GROUP_ROWS or self._held_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> Part:
        self._flush()
        self._writer.close()
        self._sink.close()
        if isinstance(self._files, fs.LocalFileSystem):
            _settle_on_disk(self._full)
        size = self._files.get_file_info(self._full).size
        return Part(self._path, size, self._rows, self._partition)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._files.delete_file(self._full)

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        if self._writer is None:
            self._files.create_dir(self._full.rpartition("/")[0], recursive=True)
            self._sink = self._files.open_output_stream(self._full)
            self._writer = pq.ParquetWriter(self._sink, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._rows += table.num_rows
        self._held, self._held_rows, self._held_bytes = [], 0, 0


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
        return spark.createDataFrame([], table.schema)
    return spark.read.schema(table.schema).option("basePath", place).parquet(*files)


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


def filesystem(place: str) -> tuple[Any, str]:
    """The filesystem that a place lies in, and the path there."""
    if "://" in place:
        return cast("tuple[Any, str]", fs.FileSystem.from_uri(place))
    return fs.LocalFileSystem(), str(Path(place).absolute())


def _discard(place: str, parts: Sequence[Part]) -> None:
    files, root = filesystem(place)
    for part in parts:
        files.delete_file(f"{root}/{part.path}")


def _settle_on_disk(path: str) -> None:
    # The store forgets what the table has, so the table must survive a power cut.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _as(batch: Batch, schema: Any) -> Batch:
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def _delta_schema(columns: StructType) -> Schema:
    return Schema.from_arrow(schema_of(columns))
