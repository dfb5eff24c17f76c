"""Conversion of stream entries to Arrow columns.

A page of ordinary entries is converted column by column. A page with anything unusual is converted
entry by entry with `core.events`, which alone decides what an entry means.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, TypeAlias

from pyspark.sql.types import (
    BooleanType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from waystation.core.events import VERSION, Event, EventName
from waystation.pipeline.products import product_named
from waystation.pipeline.sources.offsets import EventStream
from waystation.pipeline.storage.arrow import Array, Batch, Invalid, Kind, pa, pc
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import EVENTS, LAST_MS

RawEntry: TypeAlias = Sequence[Any]
"""An id and a flat list of names and values, as the server sends them."""

RANGE = StructType(
    [
        StructField("after", StringType()),
        StructField("until", StringType()),
        StructField("first", StringType()),
        StructField("added", LongType()),
        StructField("read", LongType()),
        StructField("lost", LongType()),
        StructField("recreated", BooleanType()),
    ]
)
"""Report on a range of a stream that was read."""
ROWS = StructType([*EVENTS.schema.fields, StructField("_range", RANGE)])
SCHEMA = schema_of(ROWS)
ENTRY_ROWS = StructType(
    [
        StructField("stream", StringType()),
        StructField("entry_id", StringType()),
        StructField("at", TimestampType()),
        StructField("fields", MapType(StringType(), StringType())),
        StructField("_range", RANGE),
    ]
)
"""The entries of any stream."""
ENTRY_SCHEMA = schema_of(ENTRY_ROWS)
INSTANT = SCHEMA.field("recorded_at").type

MOST_SKEW_MS = 86_400_000
"""Most milliseconds between an event and its entry; more is kept, and marked as corrupt."""
MOST_INT = 2**31 - 1
MOST_LONG = 2**63 - 1

_ID = r"^(?P<ms>[0-9]{1,15})-(?P<seq>[0-9]{1,18})$"
_SMALL_NUMBER = "^[0-9]{1,9}$"
_INSTANT_NUMBER = "^[0-9]{1,15}$"
_KNOWN = frozenset(name.value for name in EventName)
_EVENTS = pa.array(sorted(_KNOWN))


def batch_of(stream: EventStream, entries: Sequence[RawEntry]) -> Batch:
    """The entries of one page as rows of the table `events`."""
    try:
        return _by_column(stream, entries)
    except (_Unusual, Invalid):
        return _by_entry(stream, entries)


def range_row(stream: EventStream, account: dict[str, Any]) -> Batch:
    """The row that reports on a range of a stream."""
    row = {
        "product": stream.product,
        "queue": stream.queue,
        "stream": stream.key,
        "_range": account,
    }
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def entries_of(stream: EventStream, entries: Sequence[RawEntry]) -> Batch:
    """The entries of one page as they are, whatever program has written them."""
    try:
        return _entries_by_column(stream, entries)
    except (_Unusual, Invalid):
        rows = [_entry(stream, *entry) for entry in entries]
        return pa.RecordBatch.from_pylist(rows, schema=ENTRY_SCHEMA)


def entry_range_row(stream: EventStream, account: dict[str, Any]) -> Batch:
    """The row among entries that reports on a range of a stream."""
    row = {"stream": stream.key, "_range": account}
    return pa.RecordBatch.from_pylist([row], schema=ENTRY_SCHEMA)


class _Unusual(Exception):
    """A page holds something that must be converted entry by entry."""


def _by_column(stream: EventStream, entries: Sequence[RawEntry]) -> Batch:
    field_names = product_named(stream.product).field_names
    page = _Page(entries)
    ids = page.ids.cast(pa.string())
    parts = pc.extract_regex(ids, pattern=_ID)
    recorded_ms = _whole(pc.struct_field(parts, "ms"), pa.int64())
    at_ms = recorded_ms
    if field_names.at and (own := page.column(field_names.at)).null_count < len(ids):
        at_ms = pc.coalesce(_number(own, _INSTANT_NUMBER, pa.int64()), recorded_ms)
    _expect(pc.max(recorded_ms).as_py() <= LAST_MS and pc.max(at_ms).as_py() <= LAST_MS)
    if at_ms is not recorded_ms:
        _expect(pc.max(pc.abs(pc.subtract(at_ms, recorded_ms))).as_py() <= MOST_SKEW_MS)
    event = _whole(page.column(field_names.event))
    _expect(pc.all(pc.is_in(event, value_set=_EVENTS)).as_py())
    if field_names.product:
        said = _whole(page.column(field_names.product))
        _expect(pc.all(pc.equal(said, stream.product)).as_py())
    recorded_at = _instant(recorded_ms)
    return pa.RecordBatch.from_arrays(
        [
            _repeat(stream.product, len(ids)),
            _named(page, field_names.queue, stream.queue),
            _repeat(stream.key, len(ids)),
            ids,
            pc.struct_field(parts, "seq").cast(pa.int64()),
            recorded_at,
            recorded_at if at_ms is recorded_ms else _instant(at_ms),
            event,
            page.column(field_names.job_id),
            _number(page.column(field_names.attempt), _SMALL_NUMBER, pa.int32()),
            page.column(field_names.worker),
            page.other_fields(field_names.envelope),
            _version(page, field_names.version),
            pa.nulls(len(ids), pa.string()),
            recorded_at.cast(pa.date32()),
            pa.nulls(len(ids), SCHEMA.field("_range").type),
        ],
        schema=SCHEMA,
    )


class _Page:
    """The names and values of a page's entries in flat arrays."""

    def __init__(self, entries: Sequence[RawEntry]) -> None:
        self.ids = pa.array([entry[0] for entry in entries], pa.binary())
        pairs: list[Sequence[bytes]] = [entry[1] for entry in entries]
        flat = list(chain.from_iterable(pairs))
        self._ends = list(accumulate(len(each) // 2 for each in pairs))
        self._names = pa.array(flat[::2], pa.binary()).dictionary_encode()
        self._values = pa.array(flat[1::2], pa.binary()).cast(pa.string())
        offsets = pa.array([0, *self._ends], pa.int32())
        self._rows = pc.list_parent_indices(
            pa.ListArray.from_arrays(offsets, self._names.indices)
        ).cast(pa.int64())
        self._every_row = pa.array(range(len(entries)), pa.int64())
        self._known = self._names.dictionary.cast(pa.string()).to_pylist()
        places = pc.add(pc.multiply(self._rows, len(self._known)), self._names.indices)
        # A name that comes twice in one entry has no place in a map.
        _expect(pc.count_distinct(places).as_py() == len(places))

    def column(self, name: str) -> Array:
        """The values of one field; null where an entry has none."""
        if name not in self._known:
            return pa.nulls(len(self.ids), pa.string())
        here = pc.equal(self._names.indices, self._known.index(name))
        values = self._values.filter(here)
        if len(values) == len(self.ids):
            return values
        return values.take(pc.index_in(self._every_row, value_set=self._rows.filter(here)))

    def other_fields(self, envelope: Sequence[str]) -> Array:
        """The entries' own fields: all names that are not part of the envelope."""
        other = [index for index, name in enumerate(self._known) if name not in envelope]
        mask = pc.is_in(self._names.indices, value_set=pa.array(other, pa.int32()))
        upto = pc.cumulative_sum(mask.cast(pa.int32()))
        lasts = pa.array([end - 1 for end in self._ends], pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), upto.take(lasts)])
        names = self._names.filter(mask).dictionary_decode().cast(pa.string())
        return pa.MapArray.from_arrays(offsets, names, self._values.filter(mask))


def _expect(usual: bool) -> None:
    if not usual:
        raise _Unusual


def _whole(column: Array, kind: Kind | None = None) -> Array:
    _expect(column.null_count == 0)
    return column if kind is None else column.cast(kind)


def _number(column: Array, pattern: str, kind: Kind) -> Array:
    if column.null_count < len(column):
        _expect(pc.all(pc.match_substring_regex(column, pattern)).as_py())
    return column.cast(kind)


def _instant(millis: Array) -> Array:
    return pc.multiply(millis, 1000).cast(INSTANT)


def _repeat(text: str, times: int) -> Array:
    return pa.repeat(pa.scalar(text, pa.string()), times)


def _named(page: _Page, name: str, otherwise: str) -> Array:
    return _whole(page.column(name)) if name else _repeat(otherwise, len(page.ids))


def _version(page: _Page, name: str) -> Array:
    known = pa.scalar(VERSION, pa.int32())
    if not name:
        return pa.repeat(known, len(page.ids))
    column = pc.coalesce(_number(page.column(name), _SMALL_NUMBER, pa.int32()), known)
    _expect(pc.max(column).as_py() <= VERSION)
    return column


def _entries_by_column(stream: EventStream, entries: Sequence[RawEntry]) -> Batch:
    page = _Page(entries)
    ids = page.ids.cast(pa.string())
    parts = pc.extract_regex(ids, pattern=_ID)
    at_ms = _whole(pc.struct_field(parts, "ms"), pa.int64())
    _expect(pc.max(at_ms).as_py() <= LAST_MS)
    return pa.RecordBatch.from_arrays(
        [
            _repeat(stream.key, len(ids)),
            ids,
            _instant(at_ms),
            page.other_fields(()),
            pa.nulls(len(ids), ENTRY_SCHEMA.field("_range").type),
        ],
        schema=ENTRY_SCHEMA,
    )


def _entry(stream: EventStream, entry_id: bytes, flat: Sequence[bytes]) -> dict[str, Any]:
    names, _ = _numbered(_text(each) for each in flat[::2])
    text = _text(entry_id)
    return {
        "stream": stream.key,
        "entry_id": text,
        "at": min(int(text.partition("-")[0]), LAST_MS) * 1000,
        "fields": list(zip(names, map(_text, flat[1::2]), strict=True)),
        "_range": None,
    }


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _by_entry(stream: EventStream, entries: Sequence[RawEntry]) -> Batch:
    rows = [_row(stream, *entry) for entry in entries]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _row(stream: EventStream, entry_id: bytes, flat: Sequence[bytes]) -> dict[str, Any]:
    names, complaints = _numbered(map(_text, flat[::2]))
    said = dict(zip(names, map(_text, flat[1::2]), strict=True))
    field_names = product_named(stream.product).field_names
    event = product_named(stream.product).read(stream.queue, entry_id, said)
    text = entry_id.decode("ascii", "backslashreplace")
    millis, _, seq = text.partition("-")
    recorded_ms = int(millis) if len(millis) <= 15 and millis.isdigit() else 0
    complaints = [*([event.corrupt] if event.corrupt else []), *complaints]
    complaints += _complaints_about(event, recorded_ms)
    fields = dict(event.fields)
    if field_names.product in said and event.line != stream.product:
        # The stream is the product's, whatever an entry of another program says.
        complaints.append(f"line must be {stream.product}, got {event.line[:40]!r}")
        fields[field_names.product] = event.line
    attempt, version = event.attempt, event.version
    if attempt is not None and attempt > MOST_INT:
        fields[field_names.attempt] = str(attempt)
        attempt = None
    return {
        "product": stream.product,
        # An empty name is a name, as in a page that is converted column by column.
        "queue": event.queue if field_names.queue in said else event.queue or stream.queue,
        "stream": stream.key,
        "entry_id": text,
        "seq": min(int(seq), MOST_LONG) if seq.isdigit() else 0,
        "recorded_at": min(recorded_ms, LAST_MS) * 1000,
        "at": min(event.at_ms, LAST_MS) * 1000,
        "event": event.name,
        "job_id": event.subject,
        "attempt": attempt,
        "worker": event.worker,
        "fields": list(fields.items()),
        "version": min(version, MOST_INT),
        "_corrupt": "; ".join(complaints) or None,
        "date": min(recorded_ms, LAST_MS) // 86_400_000,
        "_range": None,
    }


def _numbered(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names with repetitions numbered, so that no value hides another."""
    seen: dict[str, int] = {}
    apart: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        apart.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return apart, [f"{name} came {times} times" for name, times in seen.items() if times > 1]


def _complaints_about(event: Event, recorded_ms: int) -> list[str]:
    """Reasons to mark an entry as corrupt although it could be read."""
    found: list[str] = []
    if event.name and event.name not in _KNOWN:
        found.append(f"unknown event {event.name[:80]!r}")
    if event.version > VERSION:
        found.append(f"version {event.version} is newer than {VERSION}")
    if event.attempt is not None and event.attempt > MOST_INT:
        found.append(f"attempt must be at most {MOST_INT}, got {event.attempt}")
    if max(event.at_ms, recorded_ms) > LAST_MS:
        found.append("the instant is at the end of the year 9999, or after it")
    elif abs(event.at_ms - recorded_ms) > MOST_SKEW_MS:
        found.append(f"its instant differs by {event.at_ms - recorded_ms} ms from the entry's")
    return found
