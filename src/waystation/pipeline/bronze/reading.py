"""Readings: ranges of streams, and the jobs they are about, written to files of bronze tables.

The files are invisible until they are committed together.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from waystation.core.store import faults
from waystation.pipeline.bronze.capture import Capture, NoCapture
from waystation.pipeline.bronze.job_data import DATA
from waystation.pipeline.bronze.job_hashes import HashReader
from waystation.pipeline.payloads.options import PayloadSettings
from waystation.pipeline.payloads.rules import Rules
from waystation.pipeline.sources import redis_streams
from waystation.pipeline.sources.columns import SCHEMA, RawEntry
from waystation.pipeline.sources.offsets import EventStream, StreamRange
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.storage.parts import Part, PartWriter
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
