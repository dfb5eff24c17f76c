"""`waystation.delta`: any DataFrame into a Delta table, once for each (application, batch)."""

from collections.abc import Iterator

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from waystation.pipeline.options import at_least, listed, parse
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import Batch
from waystation.pipeline.storage.delta import Identity
from waystation.pipeline.storage.parts import Part, PartWriter

NAME = "waystation.delta"


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `waystation.delta`."""

    place: str
    """Directory of the table."""
    application: str
    """Who writes; the same after every restart."""
    batch: int = 0
    """Which of its batches this is."""
    partitions: str = ""
    """Columns that the table is partitioned by, separated by commas."""

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
        return DeltaWriter(parse(self.options, SinkOptions), schema, overwrite)


class Written(WriterCommitMessage):
    """The files of one task."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


class DeltaWriter(DataSourceArrowWriter):
    """Writes into one table: the tasks' part and the driver's part."""

    def __init__(self, options: SinkOptions, columns: StructType, replace: bool) -> None:
        self._options = options
        self._columns = columns
        self._replace = replace

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Write a task's rows into files."""
        partitions = listed(self._options.partitions)
        with PartWriter(self._options.place, self._columns, partitions) as writer:
            for batch in iterator:
                writer.write(batch)
        return Written(writer.parts)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the files of all tasks part of the table."""
        delta.commit(
            self._options.place,
            self._columns,
            _parts(messages),
            Identity(self._options.application, self._options.batch),
            partitions=listed(self._options.partitions),
            replace=self._replace,
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of the tasks that had ended well; nobody will commit them."""
        delta.discard(self._options.place, _parts(messages))


def _parts(messages: list[WriterCommitMessage | None]) -> list[Part]:
    return [part for each in messages if isinstance(each, Written) for part in each.parts]
