"""`waystation.delta`: any DataFrame into a Delta table, once for each (application, batch)."""
# ruff: noqa: N802, N803 (Spark calls them so)

from collections.abc import Iterable, Iterator

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from waystation.pipeline import delta
from waystation.pipeline.arrow import Batch
from waystation.pipeline.delta import Identity
from waystation.pipeline.parts import Part, PartWriter
from waystation.pipeline.sources.options import at_least, listed, parse

NAME = "waystation.delta"


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked of `waystation.delta`."""

    place: str
    application: str
    """Who writes; the same after every restart."""
    batch: int = 0
    """Which of its batches this is; a streaming query counts by itself."""
    partitions: str = ""

    def __post_init__(self) -> None:
        at_least("batch", self.batch, 0)


class DeltaSink(DataSource):
    """Delta tables to write to."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For one DataFrame."""
        return BatchWriter(TableWriting(parse(self.options, SinkOptions), schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For a query that goes on."""
        return StreamWriter(TableWriting(parse(self.options, SinkOptions), schema, overwrite))


class Written(WriterCommitMessage):
    """The files of one task."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


class TableWriting:
    """Writing into one table: the tasks' part and the driver's part."""

    def __init__(self, options: SinkOptions, columns: StructType, replace: bool) -> None:
        self.options = options
        self._columns = columns
        self._replace = replace

    def write(self, batches: Iterator[Batch]) -> Written:
        """Write a task's rows into files."""
        partitions = listed(self.options.partitions)
        with PartWriter(self.options.place, self._columns, partitions) as writer:
            for batch in batches:
                writer.write(batch)
        return Written(writer.parts)

    def commit(self, messages: Iterable[WriterCommitMessage | None], batch: int) -> None:
        """Make the files of all tasks part of the table."""
        delta.commit(
            self.options.place,
            self._columns,
            [part for each in messages if isinstance(each, Written) for part in each.parts],
            Identity(self.options.application, batch),
            partitions=listed(self.options.partitions),
            replace=self._replace,
        )


class BatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame."""

    def __init__(self, writing: TableWriting) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Write a task's rows."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all of them."""
        self._writing.commit(messages, self._writing.options.batch)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes batch after batch."""

    def __init__(self, writing: TableWriting) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Write a task's rows."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit all of them, if that has not happened."""
        self._writing.commit(messages, batchId)
