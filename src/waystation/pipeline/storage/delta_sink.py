"""`waystation.delta`: writes a DataFrame to a Delta table, once for each (application, batch)."""

from collections.abc import Iterator

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from waystation.pipeline.options import at_least, parse, split_list
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import Batch
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.tables import Layout

NAME = "waystation.delta"


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.delta`."""

    path: str
    """Directory of the table."""
    application: str
    """Name of the writer; the same after every restart."""
    batch: int = 0
    """Number of the batch; a batch that was committed before adds nothing."""
    partitions: str = ""
    """Partition columns, separated by commas."""
    looked_up: str = ""
    """Columns by which single rows are found, which get bloom filters, separated by commas."""

    def __post_init__(self) -> None:
        at_least("batch", self.batch, 0)


class DeltaSink(DataSource):
    """A Delta table to write to."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Write one DataFrame."""
        return DeltaWriter(parse(self.options, SinkOptions), schema, overwrite)


class WrittenParts(WriterCommitMessage):
    """The files of one task."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


class DeltaWriter(DataSourceArrowWriter):
    """Writes to one table: the tasks' part and the driver's part."""

    def __init__(self, options: SinkOptions, columns: StructType, replace: bool) -> None:
        self._options = options
        self._columns = columns
        self._replace = replace

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Write a task's rows to files."""
        partitions = split_list(self._options.partitions)
        layout = Layout(looked_up=tuple(split_list(self._options.looked_up)))
        with PartWriter(self._options.path, self._columns, partitions, layout) as writer:
            for batch in iterator:
                writer.write(batch)
        return WrittenParts(writer.parts)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks."""
        delta.commit(
            self._options.path,
            self._columns,
            _parts(messages),
            BatchId(self._options.application, self._options.batch),
            partitions=split_list(self._options.partitions),
            replace=self._replace,
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of tasks that had finished."""
        delta.discard(self._options.path, _parts(messages))


def _parts(messages: list[WriterCommitMessage | None]) -> list[Part]:
    return [part for each in messages if isinstance(each, WrittenParts) for part in each.parts]
