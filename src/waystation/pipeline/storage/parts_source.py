"""`waystation.parts`: files of a table, read by Spark's tasks with Arrow.

It reads places that Spark itself has no connector for.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from waystation.pipeline.options import parse, split_list
from waystation.pipeline.storage.arrow import Batch, dataset, pa
from waystation.pipeline.storage.filesystems import filesystem
from waystation.pipeline.storage.schemas import schema_of

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
