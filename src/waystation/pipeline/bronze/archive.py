"""`waystation.archive`: ranges of streams, written to files of bronze tables by their readers.

The task that reads a range also writes it, with the jobs that it is about, so nothing of that need
travel through Spark: the rows of this source are the files written, and a report on every range.
The files are invisible until the driver commits them together.
"""
# ruff: noqa: N802 (Spark calls the methods so)

import datetime as dt
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StringType, StructField, StructType

from waystation.core.settings.section import Secret
from waystation.core.store import faults
from waystation.pipeline.bronze.capture import DATA, Capture, HashReader, NoCapture
from waystation.pipeline.options import parse
from waystation.pipeline.payloads.rules import PayloadSettings, Rules
from waystation.pipeline.sources import redis_streams
from waystation.pipeline.sources.columns import RANGE, SCHEMA, RawEntry
from waystation.pipeline.sources.events import EventsStream, StreamPartition
from waystation.pipeline.sources.offsets import EventStream, StreamRange
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import Batch, pa, pc
from waystation.pipeline.storage.parts import PART, Part, PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import EVENTS, FIELD_VALUES, LAST_MS, PAYLOADS, Table

WRITTEN = (EVENTS, PAYLOADS, FIELD_VALUES)
"""The tables that a reading writes files of."""
REPORTED = [name for name in SCHEMA.names if name in ("product", "queue", "stream", "_range")]


class Reading(NamedTuple):
    """What was read: files by table, a report on every range, and the number of events."""

    parts: dict[Table, list[Part]]
    reports: list[dict[str, Any]]
    events: int


def read_ranges(
    root: str,
    store: Store,
    options: EventOptions,
    payloads: PayloadSettings,
    ranges: Sequence[StreamRange],
) -> Reading:
    """Write the events of some ranges, and the jobs they are about, to files."""
    reports: list[dict[str, Any]] = []
    count = 0
    with (
        PartWriter.of(root, EVENTS) as events,
        PartWriter.of(root, PAYLOADS) as jobs,
        PartWriter.of(root, FIELD_VALUES) as values,
    ):
        for span in ranges:
            client = store.at(span.stream.key)
            capture = _capture(client, span.stream, options, payloads)
            unknown = _unknown(root, span.stream.key) if span.went_back else list[RawEntry]

            def new(page: list[RawEntry], capture: Any = capture, unknown: Any = unknown) -> Any:
                return capture.entries(unknown(page))

            batches = redis_streams.rows_of(
                client, span, page=options.page, accounts=True, change=new
            )
            for batch in _read(batches):
                if batch.column("_range").null_count:
                    events.write(batch.select(EVENTS.names))
                    count += batch.num_rows
                else:
                    reports += batch.select(REPORTED).to_pylist()
                if capture.is_full:
                    _write(capture, jobs, values)
            _write(capture, jobs, values)
    written = zip(WRITTEN, (events, jobs, values), strict=True)
    return Reading({table: writer.parts for table, writer in written}, reports, count)


def _unknown(root: str, stream: str) -> Callable[[list[RawEntry]], list[RawEntry]]:
    """Those of a page that are not stored: a replica that took over late has some that are."""
    # Entries come in their order, so that the ids of one day at a time are enough.
    known = lru_cache(maxsize=1)(partial(_known_ids, root, stream))
    return lambda page: [each for each in page if each[0].decode() not in known(_day(each[0]))]


def _known_ids(root: str, stream: str, day: dt.date) -> frozenset[str]:
    is_mine = pc.field("stream") == stream
    found = delta.read_arrow(root, EVENTS, ("entry_id",), is_mine, by=("stream",), days=[day])
    return frozenset(found["entry_id"].to_pylist())


def _day(entry_id: bytes) -> dt.date:
    seconds = min(int(entry_id.partition(b"-")[0]), LAST_MS) // 1000
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date()


def _capture(
    client: Any, stream: EventStream, options: EventOptions, payloads: PayloadSettings
) -> Capture | NoCapture:
    rules, data = Rules(payloads), DATA.get(stream.product)
    if not payloads.keep or data is None:
        return NoCapture(stream, rules)
    reader = None
    if data.base is not None:
        base = data.base(*options.place_of(stream.product, stream.queue))
        reader = HashReader(client, base.encode(), data)
    return Capture(stream, rules, data, reader, payloads)


def _read(batches: Iterable[Any]) -> Iterator[Any]:
    """What is read; what goes wrong in reading it is the store's fault, a full disk is not."""
    each = iter(batches)
    while True:
        with faults.translated():
            batch = next(each, None)
        if batch is None:
            return
        yield batch


def _write(capture: Capture | NoCapture, jobs: PartWriter, values: PartWriter) -> None:
    for taken in _read(capture.take()):
        jobs.write(taken.payloads)
        if taken.values.num_rows:
            values.write(taken.values)


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
