"""`waystation.archive`: ranges of streams, written to files of the table `events` by their readers.

The task that reads a range also writes it, so events need not travel through Spark: the rows of
this source are the files written, and a report on every range. The files are invisible until
`waystation.bronze` commits them.
"""
# ruff: noqa: N802 (Spark calls the methods so)

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources.columns import RANGE
from waystation.pipeline.sources.events import EventsStream
from waystation.pipeline.sources.streams import EventOptions, rows
from waystation.pipeline.storage.arrow import Batch, pa, schema_of
from waystation.pipeline.storage.parts import PART, PartWriter
from waystation.pipeline.tables import EVENTS

NAME = "waystation.archive"

ROWS = StructType(
    [
        StructField("part", PART),
        StructField("line", StringType()),
        StructField("queue", StringType()),
        StructField("stream", StringType()),
        StructField("_range", RANGE),
    ]
)
"""A file that was written, or else the report on a range."""
_SCHEMA = schema_of(ROWS)


class ArchiveOptions(EventOptions, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.archive`."""

    root: str
    """Directory of the history."""


class Archive(DataSource):
    """The streams, read into files of the table `events`."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def schema(self) -> StructType:
        """Files and reports on ranges."""
        return ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what the streams hold and what is added to them."""
        return ArchiveStream(parse(self.options, ArchiveOptions))


class ArchiveStream(EventsStream):
    """Follows the streams and writes their entries to files."""

    def __init__(self, options: ArchiveOptions) -> None:
        super().__init__(options)
        self._path = EVENTS.path(options.root)

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """Write the ranges of one task to files; the rows are the files and the reports."""
        accounts: list[dict[str, Any]] = []
        with PartWriter(self._path, EVENTS.schema, EVENTS.partitions) as writer:
            for batch in rows(self._streams.store, self._options, partition, accounts=True):
                if batch.column("_range").null_count:
                    writer.write(batch.select(EVENTS.names))
                else:
                    accounts += batch.select(_SCHEMA.names[1:]).to_pylist()
        files = [{"part": part.row} for part in writer.parts]
        yield pa.RecordBatch.from_pylist(files + accounts, schema=_SCHEMA)
