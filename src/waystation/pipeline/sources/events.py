"""`waystation.events` and `waystation.streams`: Redis streams as DataFrames, at once or followed.

    spark.readStream.format("waystation.events").option("url", "redis://…").option("queues", "mail")
    spark.readStream.format("waystation.streams").option("streams", "orders,clicks:*")

The rows of the first are those of the table `events`; a row of the second is an entry, with its
fields as text. A row whose `_range` is not null reports on a range of a stream, and how many of its
entries were gone before they could be read.
"""
# ruff: noqa: N802 (Spark calls the methods so)

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, cast

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType
from redis import Redis

from waystation.core.store import faults
from waystation.pipeline.options import parse
from waystation.pipeline.sources import offsets, redis_streams
from waystation.pipeline.sources.columns import ENTRY_ROWS, ROWS
from waystation.pipeline.sources.offsets import LAST_SEQ, EventStream, Offset, StreamRange, id_order
from waystation.pipeline.sources.redis_streams import ENTRY_FORM, EVENT_FORM, RowForm, rows_of
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import (
    AnyStreamOptions,
    AnyStreams,
    EventOptions,
    Selected,
    StreamOptions,
    Streams,
)
from waystation.pipeline.storage.arrow import Batch

PIECES_A_SHARE = 8
"""Pieces that a task's share of a stream is cut into: they are of equal time, not of equal size, so
each task reads some from everywhere."""


class StreamsReader(DataSourceReader):
    """Reads streams as they are now.

    It takes no filters: Spark keeps what a reader has left out for one query of a DataFrame, and
    gives the next query on the same DataFrame too few rows.
    """

    def __init__(self, options: StreamOptions, streams: Selected, form: RowForm) -> None:
        self._options = options
        self._streams = streams
        self._form = form

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges of all streams, shared among tasks."""
        ends = self._streams.ends()
        there = (each for each in self._streams.now() if each.key in ends)
        ranges = [StreamRange(each, Offset(), ends[each.key]) for each in there]
        shared = _partitions(ranges, self._options, self._streams.store)
        return shared or [StreamPartition(())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one task, without reports on ranges."""
        for batch in rows(self._streams.store, self._options, partition, False, self._form):
            if batch.column("_range").null_count:
                yield batch


class StreamsFollower(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows streams from offset to offset."""

    joins_reports = False
    """Whether those who take the rows join the reports on pieces of one range."""

    def __init__(self, options: StreamOptions, streams: Selected, form: RowForm) -> None:
        self._options = options
        self._streams = streams
        self._form = form
        self._goal: dict[str, Offset] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint starts."""
        match self._options.starting:
            case "earliest":
                return offsets.to_json({})
            case "latest":
                return offsets.to_json(self._streams.ends())
            case text:
                return offsets.to_json(offsets.from_json(msgspec.json.decode(text)))

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix how far this run goes."""
        self._goal = self._streams.ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The most that one batch takes."""
        most = self._options.per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch."""
        here = offsets.from_json(start)
        ends = self._streams.ends() if self._goal is None else self._goal
        moved = {stream: end for stream, end in ends.items() if end != here.get(stream, Offset())}
        if isinstance(limit, ReadMaxRows):
            moved = self._within(here, moved, limit.max_rows)
        return offsets.to_json({**here, **moved})

    def reportLatestOffset(self) -> dict[str, Any]:
        """The ends of the streams; the difference is the lag."""
        return offsets.to_json(self._streams.ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of one batch, shared among tasks."""
        until = offsets.from_json(end)
        ranges = offsets.between(offsets.from_json(start), until, self._streams.known(until))
        store = self._streams.store if self.joins_reports else None
        return _partitions(ranges, self._options, store)

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one task."""
        accounts = self._options.accounts
        yield from rows(self._streams.store, self._options, partition, accounts, self._form)

    def commit(self, end: dict[str, Any]) -> None:
        """Trim the streams behind a finished batch, with the option `trim`."""
        if self._options.trim:
            for stream, offset in offsets.from_json(end).items():
                client = self._streams.store.at(stream)
                client.execute_command("XTRIM", stream, "MINID", "~", offsets.next_id(offset.id))

    def _within(
        self, here: Mapping[str, Offset], ends: Mapping[str, Offset], most: int
    ) -> dict[str, Offset]:
        """Nearer ends, so that all ranges together have at most so many entries."""
        nearer: dict[str, Offset] = {}
        left = most
        # The smallest first: what they leave of their shares goes to the others.
        streams = sorted(ends, key=lambda each: _size(here.get(each, Offset()), ends[each]))
        for turn, stream in enumerate(streams):
            share = max(1, left // (len(streams) - turn))
            start, end = here.get(stream, Offset()), ends[stream]
            if end.order > start.order and (end.added is None or _size(start, end) > share):
                near = redis_streams.advance(self._streams.store.at(stream), stream, start, share)
                end = near if near.order < end.order else end
            nearer[stream] = end
            left -= min(share, _size(start, end))
        return nearer


def _partitions(
    ranges: Sequence[StreamRange], options: StreamOptions, store: Store | None
) -> list[InputPartition]:
    """Ranges shared among tasks; with a store, those larger than a task's share are cut."""
    tasks = options.tasks or os.cpu_count() or 1
    share = max(LEAST_ROWS_A_TASK, -(-sum(each.size for each in ranges) // tasks))
    parts: list[StreamRange] = []
    for each in ranges:
        if store is None or each.size <= share:
            parts.append(each)
        else:
            many = PIECES_A_SHARE * -(-each.size // share)
            parts += pieces(store.at(each.stream.key), each, many=many)
    shares = offsets.balanced(parts, tasks=tasks, least=LEAST_ROWS_A_TASK)
    return [StreamPartition(share) for share in shares]


def _size(start: Offset, end: Offset) -> int:
    return StreamRange(EventStream("", "", ""), start, end).size


LOOKS = 6
"""Times that the busy part of a range is looked at more closely: from a year to a second."""
FEW = 50
"""Entries below which a slot of time is not busy."""

Slot: TypeAlias = tuple[int, int]
"""The first and the last millisecond of some time."""


def pieces(client: Redis, span: StreamRange, *, many: int, few: int = FEW) -> list[StreamRange]:
    """A range in pieces of equal time, about `many`; time with few entries does not count.

    A millisecond is never cut, so whatever a script adds about a job is in one piece. A server
    counts entries at the ends of a range only, so all are expected in the last piece: only the
    reports on all pieces together tell what was lost.
    """
    last_ms = span.until.order[0]
    if last_ms <= span.after.order[0]:
        return [span]
    with faults.translated():
        found: Any = client.xrange(span.stream.key, f"({span.after.id}", span.until.id, count=1)
        if not found:
            return [span]
        busy = [(id_order(found[0][0].decode())[0], last_ms)]
        for _ in range(LOOKS):
            slots = _slots(busy, many)
            busy = _busy(client, span.stream.key, slots, few)
            if len(busy) > len(slots) // 2:
                break
    cuts = [Offset(f"{end_ms}-{LAST_SEQ}", span.after.added) for _, end_ms in busy[:-1]]
    guess = span.size // (len(cuts) + 1)
    edges = [span.after, *cuts, span.until]
    return [StreamRange(span.stream, *each, guess) for each in pairwise(edges)]


def _slots(times: Sequence[Slot], many: int) -> list[Slot]:
    """Some time in slots of equal length."""
    length = -(-sum(end - start + 1 for start, end in times) // many)
    return [
        (first, min(first + length - 1, end))
        for start, end in times
        for first in range(start, end + 1, length)
    ]


def _busy(client: Redis, stream: str, slots: Sequence[Slot], few: int) -> list[Slot]:
    """The slots that have at least so many entries."""
    asking: Any = client.pipeline(transaction=False)
    for start_ms, end_ms in slots:
        asking.xrange(stream, start_ms, end_ms, count=few)
    return [slot for slot, found in zip(slots, asking.execute(), strict=True) if len(found) == few]


LEAST_ROWS_A_TASK = 20_000
"""Starting a task costs as much as reading some thousand rows."""


class StreamPartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: Sequence[StreamRange]) -> None:
        super().__init__(None)
        self.ranges = ranges


def rows(
    store: Store,
    options: StreamOptions,
    partition: InputPartition,
    accounts: bool,
    form: RowForm = EVENT_FORM,
) -> Iterator[Batch]:
    """The rows of one task."""
    for span in cast(StreamPartition, partition).ranges:
        client = store.at(span.stream.key)
        yield from rows_of(client, span, page=options.page, accounts=accounts, form=form)


NAME = "waystation.events"


class Events(DataSource):
    """The events of any products and queues."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table `events`, and `_range`."""
        return ROWS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read what the streams hold now."""
        return EventsReader(parse(self.options, EventOptions))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what the streams hold and what is added to them."""
        return EventsStream(parse(self.options, EventOptions))


class EventsReader(StreamsReader):
    """Reads the event streams as they are now."""

    def __init__(self, options: EventOptions) -> None:
        super().__init__(options, Streams(options), EVENT_FORM)


class EventsStream(StreamsFollower):
    """Follows the event streams from offset to offset."""

    def __init__(self, options: EventOptions) -> None:
        super().__init__(options, Streams(options), EVENT_FORM)


class RedisStreams(DataSource):
    """The entries of any streams."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return "waystation.streams"

    def schema(self) -> StructType:
        """Stream, id, instant and fields of an entry, and `_range`."""
        return ENTRY_ROWS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read what the streams hold now."""
        options = parse(self.options, AnyStreamOptions)
        return StreamsReader(options, AnyStreams(options), ENTRY_FORM)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what the streams hold and what is added to them."""
        options = parse(self.options, AnyStreamOptions)
        return StreamsFollower(options, AnyStreams(options), ENTRY_FORM)
