"""`waystation.archive`: ranges of streams, written to files of bronze tables by their readers.

The task that reads a range also writes it, with the jobs that it is about, so nothing of that need
travel through Spark: the rows of this source are the files written, and a report on every range.
The files are invisible until the driver commits them.
"""
# ruff: noqa: N802 (Spark calls the methods so)

import os
import time
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StringType, StructField, StructType

from waystation.core.settings.section import Secret
from waystation.pipeline.bronze.reading import read_ranges
from waystation.pipeline.options import parse
from waystation.pipeline.payloads.options import PayloadSettings
from waystation.pipeline.sources.columns import RANGE
from waystation.pipeline.sources.events import EventsStream
from waystation.pipeline.sources.stream_readers import StreamPartition
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.arrow import Batch, pa
from waystation.pipeline.storage.parts import PART
from waystation.pipeline.storage.schemas import schema_of

NAME = "waystation.archive"
PAYLOADS_VARIABLE = "WAYSTATION_PIPELINE_PAYLOADS"
"""Environment variable with the settings of payloads: they hold keys, and options are shown."""

ROWS = StructType(
    [
        StructField("table", StringType()),
        StructField("part", PART),
        StructField("product", StringType()),
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
    """The streams, read into files of bronze tables."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def schema(self) -> StructType:
        """Files and reports on ranges."""
        return ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what the streams hold and what is added to them."""
        return ArchiveStream(
            parse(self.options, ArchiveOptions), from_text(os.environ.get(PAYLOADS_VARIABLE, ""))
        )


class ArchiveStream(EventsStream):
    """Follows the streams and writes their entries to files."""

    joins_reports = True

    def __init__(self, options: ArchiveOptions, payloads: PayloadSettings) -> None:
        super().__init__(options)
        self._events = options
        self._root = options.root
        self._payloads = payloads
        self._look: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where the tables end; with `trim`, what the last run has stored leaves the streams."""
        start = super().initialOffset()
        self.commit(start)
        return start

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix how far this run goes."""
        super().prepareForTriggerAvailableNow()
        self._look = time.time()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; there is one each time, also when nothing is new.

        What the queues hold may have changed without an event.
        """
        return {**super().latestOffset(start, limit), "look": self._look or time.time()}

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """Write the ranges of one task to files; the rows are the files and the reports."""
        ranges = cast(StreamPartition, partition).ranges
        read = read_ranges(self._root, self._streams.store, self._events, self._payloads, ranges)
        files = [
            {"table": table.name, "part": part.row}
            for table, parts in read.parts.items()
            for part in parts
        ]
        yield pa.RecordBatch.from_pylist(files + read.reports, schema=_SCHEMA)


def to_text(payloads: PayloadSettings) -> str:
    """Settings of payloads as they travel to Spark's processes."""
    return msgspec.json.encode(payloads, enc_hook=str).decode()


def from_text(text: str) -> PayloadSettings:
    """Settings of payloads as they have travelled; nothing is kept without any."""
    if not text:
        return PayloadSettings(keep=False)
    return msgspec.json.decode(text, type=PayloadSettings, dec_hook=lambda _, given: Secret(given))
