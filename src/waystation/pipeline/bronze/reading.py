"""Readings: ranges of streams, and the jobs they are about, written to files of bronze tables.

The files are invisible until they are committed together.
"""

from collections.abc import Iterable, Iterator, Sequence
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
from waystation.pipeline.tables import EVENTS, FIELD_VALUES, PAYLOADS, Table

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
            known = _known_ids(root, span) if span.went_back else frozenset[str]()

            def new(page: list[RawEntry], capture: Any = capture, known: Any = known) -> Any:
                unknown = [each for each in page if each[0].decode() not in known]
                return capture.entries(unknown if known else page)

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


def _known_ids(root: str, span: StreamRange) -> frozenset[str]:
    """Ids of a stream's stored entries: a replica that took over late has some of them, too."""
    is_mine = pc.field("stream") == span.stream.key
    found = delta.read_arrow(root, EVENTS, ("entry_id",), is_mine, by=("stream",))
    return frozenset(found["entry_id"].to_pylist())


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
