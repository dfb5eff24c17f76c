"""`waystation.archive`: stretches of streams become files of the events table where they are read.

Whoever reads a stretch writes it as well, so events need not travel through Spark: the rows of this
source say which files there are now, and what came of every stretch. Nobody sees those files before
`waystation.bronze` commits them.
"""
# ruff: noqa: N802 (Spark calls the methods so)

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources.columns import RANGE
from waystation.pipeline.sources.following import EventsStream
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
"""A file that was written, or else a stretch and what came of reading it."""
_SCHEMA = schema_of(ROWS)


class ArchiveOptions(EventOptions, frozen=True, kw_only=True, rename="camel"):
    """What can be asked of `waystation.archive`."""

    root: str


class Archive(DataSource):
    """The streams, read into files of the events table."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return NAME

    def schema(self) -> StructType:
        """Files and stretches."""
        return ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Everything that is there and everything that comes."""
        return ArchiveStream(parse(self.options, ArchiveOptions))


class ArchiveStream(EventsStream):
    """The streams followed from place to place, and written down."""

    def __init__(self, options: ArchiveOptions) -> None:
        super().__init__(options)
        self._place = EVENTS.place(options.root)

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """Write one task's stretches into files, and say which files they are."""
        accounts: list[dict[str, Any]] = []
        with PartWriter(self._place, EVENTS.schema, EVENTS.partitions) as writer:
            for batch in rows(self._streams.store, self._options, partition, accounts=True):
                if batch.column("_range").null_count:
                    writer.write(batch.select(EVENTS.names))
                else:
                    accounts += batch.select(_SCHEMA.names[1:]).to_pylist()
        files = [{"part": part.row} for part in writer.parts]
        yield pa.RecordBatch.from_pylist(files + accounts, schema=_SCHEMA)
