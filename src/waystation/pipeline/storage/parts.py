"""Parquet files of a table: written by tasks, invisible until committed, and read by tasks.

`waystation.parts` reads them with Arrow, also from places that Spark itself has no connector for.
"""

import contextlib
import datetime as dt
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from waystation.core.errors import InvalidInput, InvalidOption
from waystation.pipeline.options import parse, split_list
from waystation.pipeline.storage.arrow import Batch, dataset, fs, pa, pc, pq
from waystation.pipeline.storage.places import filesystem
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import PLAIN, Layout, Table

GROUP_BYTES = 64 * 2**20
"""Bytes of a row group, which a task buffers before it writes them."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What the folder of a partition is named after that has no value."""
MOST_HELD = 4 * GROUP_BYTES
"""Bytes that a task buffers for all of its files together, one for each partition."""
MOST_OPEN = 16
"""Files that a task has begun to write at once."""


PART = StructType(
    [
        StructField("path", StringType()),
        StructField("size", LongType()),
        StructField("rows", LongType()),
        StructField("partition", MapType(StringType(), StringType())),
        StructField("stats", StringType()),
    ]
)


class Part(NamedTuple):
    """A file that was written and is not committed yet."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str | None]
    stats: str
    """Statistics for the Delta log, as JSON."""

    @property
    def row(self) -> dict[str, Any]:
        """The part as a row with the schema `PART`."""
        return {**self._asdict(), "partition": list(self.partition.items())}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The part that a row describes."""
        return cls(row["path"], row["size"], row["rows"], dict(row["partition"]), row["stats"])


class PartWriter:
    """Writes rows to files of a table, one for each partition.

    As a context manager it deletes its files when an error leaves the block.
    """

    def __init__(
        self,
        path: str,
        columns: StructType,
        partitions: Sequence[str],
        layout: Layout = PLAIN,
    ) -> None:
        self._files, self._root = filesystem(path)
        self._layout = layout
        self._schema = schema_of(columns)
        self._by = list(partitions)
        self._open: dict[tuple[Any, ...], _Part] = {}
        self.parts: list[Part] = []

    @classmethod
    def of(cls, root: str, table: Table) -> Self:
        """A writer to a table of the history at `root`."""
        return cls(table.path(root), table.schema, table.partitions, table.layout)

    def write(self, batch: Batch) -> None:
        """Write rows; they are on disk when `close` has returned."""
        for values, rows in self._cut(_as(batch, self._schema)):
            if values not in self._open:
                self._open[values] = _Part(
                    self._files,
                    self._root,
                    dict(zip(self._by, values, strict=True)),
                    self._layout,
                )
            self._open[values].write(rows)
        self._make_room()

    def _make_room(self) -> None:
        # A batch of jobs of a long history has rows of every day: few for each, which wait.
        begun = [each for each, part in self._open.items() if part.is_begun]
        if len(begun) > MOST_OPEN:
            self._close(begun)
        held = {each: part.held_bytes for each, part in self._open.items()}
        if sum(held.values()) > MOST_HELD:
            self._close(sorted(held, key=held.__getitem__)[len(held) // 2 :])

    def _close(self, values: Sequence[tuple[Any, ...]]) -> None:
        for each in values:
            self.parts.append(self._open[each].close())
            del self._open[each]

    def close(self) -> list[Part]:
        """Finish the files and return all parts."""
        self._close([*self._open])
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
            if failure is not None:
                self.discard()

    def discard(self) -> None:
        """Delete the files that are finished."""
        for written in self.parts:
            with contextlib.suppress(OSError):
                self._files.delete_file(f"{self._root}/{written.path}")

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


def require_visible(path: str, parts: Sequence[Part], *, everywhere: bool = False) -> None:
    """Refuse files of a table on a disk that are not there, or not whole, as seen from here.

    Executors on other machines write to their own disks. In object stores, which everybody sees and
    which are asked once for each file, they are looked for only with `everywhere`.
    """
    files, root = filesystem(path)
    if not (everywhere or isinstance(files, fs.LocalFileSystem)):
        return
    found = files.get_file_info([f"{root}/{each.path}" for each in parts])
    away = [each for each, here in zip(parts, found, strict=True) if here.size != each.size]
    if away:
        raise InvalidOption(
            f"a history must be on a disk or an object store that all executors share: of "
            f"{len(parts)} files that tasks have written to {path}, {len(away)} are not visible "
            f"to the driver, such as {away[0].path}, or not any more. They were not committed"
        )


def values_of(path: str) -> dict[str, str | None]:
    """The values of a file's partitions, which its folders are named after."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {name: None if value == NO_VALUE else value for name, _, value in pairs}


def _partition_folder(value: str | None) -> str:
    if value is None:
        return NO_VALUE
    if not re.fullmatch(r"[\w.-]+", value, re.ASCII):
        # Readers disagree about how other characters are escaped in a path.
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

    def __init__(self, files: Any, root: str, partition: Mapping[str, Any], layout: Layout) -> None:
        self._files = files
        self._layout = layout
        self._partition = {
            name: None if value is None else str(value) for name, value in partition.items()
        }
        folders = [f"{name}={_partition_folder(value)}" for name, value in self._partition.items()]
        self._path = "/".join([*folders, f"part-{uuid.uuid4()}.parquet"])
        self._full = f"{root}/{self._path}"
        self._held: list[Batch] = []
        self._held_rows = self.held_bytes = self._rows = 0
        self._writer: Any = None
        self._sink: Any = None

    @property
    def is_begun(self) -> bool:
        return self._writer is not None

    def write(self, rows: Batch) -> None:
        self._held.append(rows)
        self._held_rows += rows.num_rows
        self.held_bytes += rows.nbytes
        if self._held_rows >= self._layout.group_rows or self.held_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> Part:
        self._flush()
        self._writer.close()
        self._sink.close()
        if isinstance(self._files, fs.LocalFileSystem):
            fsync(self._full)
        size = self._files.get_file_info(self._full).size
        stats = statistics_of(self._writer.writer.metadata)
        return Part(self._path, size, self._rows, self._partition, stats)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._files.delete_file(self._full)

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        if self._writer is None:
            if isinstance(self._files, fs.LocalFileSystem):
                self._files.create_dir(self._full.rpartition("/")[0], recursive=True)
            self._sink = self._files.open_output_stream(self._full)
            # Small files get a small filter: what is not there is known without reading rows.
            many = min(self._layout.group_rows, max(1024, table.num_rows))
            filters = {name: {"ndv": many, "fpp": 0.01} for name in self._layout.looked_up} or None
            self._writer = pq.ParquetWriter(
                self._sink,
                table.schema,
                compression="zstd",
                bloom_filter_options=filters,
                dictionary_pagesize_limit=self._layout.dictionary_bytes,
            )
        self._writer.write_table(table, self._layout.group_rows)
        self._rows += table.num_rows
        self._held, self._held_rows, self.held_bytes = [], 0, 0


def fsync(path: str) -> None:
    """Let a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _as(batch: Batch, schema: Any) -> Batch:
    return batch if batch.schema.equals(schema) else batch.cast(schema)


LONGEST = 32
"""Characters of a text that are kept; a longer text has a lower bound and no upper one."""


class Stats(msgspec.Struct, rename="camel"):
    """Rows of a file, and minimum, maximum and nulls of each column."""

    num_records: int
    min_values: dict[str, Any] = {}
    max_values: dict[str, Any] = {}
    null_count: dict[str, int] = {}


def statistics_of(footer: Any) -> str:
    """The statistics in a Parquet footer; nested columns are left out."""
    stats = Stats(footer.num_rows)
    for number in range(footer.num_columns):
        groups = [footer.row_group(each).column(number) for each in range(footer.num_row_groups)]
        name = groups[0].path_in_schema if groups else ""
        found = [group.statistics for group in groups]
        if not name or "." in name or not all(found):
            continue
        if all(each.has_null_count for each in found):
            stats.null_count[name] = sum(each.null_count for each in found)
        # A row group of nulls has neither minimum nor maximum.
        known = [each for each in found if each.has_min_max]
        if not known or any(not each.has_min_max and each.num_values for each in found):
            continue
        least, most = min(each.min for each in known), max(each.max for each in known)
        if (low := _least(least)) is not None:
            stats.min_values[name] = low
        if (high := _most(most)) is not None:
            stats.max_values[name] = high
    return msgspec.json.encode(stats).decode()


def _least(value: Any) -> Any:
    match value:
        case str():
            return value[:LONGEST]
        case dt.datetime():
            return _instant(value, value.microsecond // 1000)
        case _:
            return _plain(value)


def _most(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= LONGEST else None
        case dt.datetime():
            # Delta keeps milliseconds, so the maximum must be rounded up.
            up = value + dt.timedelta(microseconds=-value.microsecond % 1000)
            return _instant(up, up.microsecond // 1000)
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return None
        case float():
            return value if value == value else None
        case int():
            return value
        case dt.date():
            return value.isoformat()
        case _:
            return None


def _instant(value: dt.datetime, millis: int) -> str:
    return f"{value.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S}.{millis:03}Z"


NAME = "waystation.parts"
MOST_TASKS = 32
"""Tasks that the files are shared among."""
BATCH_ROWS = 16_384
"""Rows that travel to Spark at once: they may hold payloads, and executors may be small."""


class PartsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `waystation.parts`."""

    table: str
    """Place of the table."""
    files: str
    """Names of the files within it, as a list in JSON."""
    partitions: str = ""
    """Partition columns, separated by commas."""


class Parts(DataSource):
    """Files of a table, as its writers left them."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the files once."""
        return PartsReader(parse(self.options, PartsOptions), schema)


class Share(InputPartition):
    """The files of one task."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files


class PartsReader(DataSourceReader):
    """Reads files by tasks."""

    def __init__(self, options: PartsOptions, columns: StructType) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """The files, shared among tasks."""
        files = msgspec.json.decode(self._options.files, type=list[str])
        tasks = min(MOST_TASKS, len(files))
        return [Share(files[first::tasks]) for first in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one task's files."""
        wanted = schema_of(self._columns)
        by = split_list(self._options.partitions)
        files = dataset_of(self._options.table, wanted, cast(Share, partition).files, by)
        for batch in files.to_batches(batch_size=BATCH_ROWS):
            if batch.num_rows:
                yield batch.select(wanted.names)


def dataset_of(path: str, columns: Any, names: Sequence[str], partitions: Sequence[str]) -> Any:
    """Files of the table at a path; a column that a file of an older version lacks is null."""
    files, root = filesystem(path)
    by = pa.schema([columns.field(name) for name in partitions])
    return dataset.dataset(
        [f"{root}/{name}" for name in names],
        schema=columns,
        format="parquet",
        filesystem=files,
        partitioning=dataset.partitioning(by, flavor="hive") if by.names else None,
        partition_base_dir=root,
    )
