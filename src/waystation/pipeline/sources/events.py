"""`waystation.events`: the event streams as a DataFrame, in one batch or as a stream.

    spark.readStream.format("waystation.events").option("url", "redis://…").option("queues", "mail")

The rows are those of the table `events`. A row whose `_range` is not null is no event: it reports
on a range of a stream, and how many of its entries were gone before they could be read.
"""
# ruff: noqa: N802 (Spark calls the methods so)

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources import offsets, redis_streams
from waystation.pipeline.sources.columns import ROWS
from waystation.pipeline.sources.offsets import EventStream, Offset, StreamRange
from waystation.pipeline.sources.partitions import LEAST_ROWS_A_TASK, StreamPartition, rows
from waystation.pipeline.sources.stream_ends import end_of
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.storage.arrow import Batch
from waystation.pipeline.stream_names import ALL_QUEUES

NAME = "waystation.events"
_LATEST_SEQ = 2**64 - 1


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


class EventsReader(DataSourceReader):
    """Reads the streams as they are now, or the part of them that a query needs."""

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        self._streams = Streams(options)
        self._from_ms, self._to_ms = 0, 2**63 - 1
        self._queues: set[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow down streams and ids by filters; Spark checks every row once more."""
        for each in filters:
            match each:
                case EqualTo(attribute=("queue",), value=str(queue)):
                    self._only({queue})
                case In(attribute=("queue",), value=queues):
                    self._only(set(cast(Iterable[str], queues)))
                case (
                    GreaterThan(attribute=("told_at",), value=datetime() as instant)
                    | GreaterThanOrEqual(attribute=("told_at",), value=datetime() as instant)
                ):
                    self._from_ms = max(self._from_ms, _millis(instant))
                case (
                    LessThan(attribute=("told_at",), value=datetime() as instant)
                    | LessThanOrEqual(attribute=("told_at",), value=datetime() as instant)
                ):
                    self._to_ms = min(self._to_ms, _millis(instant))
                case _:
                    pass
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges that the query needs, shared among tasks."""
        ranges = [each for stream in self._streams.now() for each in self._ranges(stream)]
        return _partitions(ranges, self._options) or [StreamPartition(())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one task, without reports on ranges."""
        for batch in rows(self._streams.store, self._options, partition, False):
            if batch.column("_range").null_count:
                yield batch

    def _only(self, queues: set[str]) -> None:
        self._queues = queues if self._queues is None else self._queues & queues

    def _ranges(self, stream: EventStream) -> Iterator[StreamRange]:
        if self._queues is not None and stream.queue not in {ALL_QUEUES, *self._queues}:
            return
        end = end_of(self._streams.store.at(stream.key), stream.key)
        if end is None:
            return
        after = Offset(f"{self._from_ms - 1}-{_LATEST_SEQ}") if self._from_ms else Offset()
        last = Offset(f"{self._to_ms}-{_LATEST_SEQ}", end.added)
        until = end if end.order <= last.order else last
        if after.order < until.order:
            yield StreamRange(stream, after, until)


class EventsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the streams from offset to offset."""

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        self._streams = Streams(options)
        self._goal: dict[str, Offset] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint starts."""
        match self._options.starting:
            case "earliest":
                return offsets.to_json({})
            case "latest":
                return offsets.to_json(self._ends())
            case text:
                return offsets.to_json(offsets.from_json(msgspec.json.decode(text)))

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix how far this run goes."""
        self._goal = self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The most that one batch takes."""
        most = self._options.per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch."""
        here = offsets.from_json(start)
        ends = self._ends() if self._goal is None else self._goal
        moved = {stream: end for stream, end in ends.items() if end != here.get(stream, Offset())}
        if isinstance(limit, ReadMaxRows):
            moved = self._within(here, moved, limit.max_rows)
        return offsets.to_json({**here, **moved})

    def reportLatestOffset(self) -> dict[str, Any]:
        """The ends of the streams; the difference is the lag."""
        return offsets.to_json(self._ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of one batch, shared among tasks."""
        until = offsets.from_json(end)
        ranges = offsets.between(offsets.from_json(start), until, self._streams.known(until))
        return _partitions(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one task."""
        yield from rows(self._streams.store, self._options, partition, self._options.accounts)

    def commit(self, end: dict[str, Any]) -> None:
        """Trim the streams behind a finished batch, with the option `trim`."""
        if self._options.trim:
            for stream, offset in offsets.from_json(end).items():
                client = self._streams.store.at(stream)
                client.execute_command("XTRIM", stream, "MINID", "~", offsets.next_id(offset.id))

    def _ends(self) -> dict[str, Offset]:
        ends = {
            stream.key: end_of(self._streams.store.at(stream.key), stream.key)
            for stream in self._streams.now()
        }
        return {stream: end for stream, end in ends.items() if end is not None}

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


def _partitions(ranges: Sequence[StreamRange], options: EventOptions) -> list[InputPartition]:
    tasks = options.tasks or os.cpu_count() or 1
    shares = offsets.balanced(ranges, tasks=tasks, least=LEAST_ROWS_A_TASK)
    return [StreamPartition(share) for share in shares]


def _size(start: Offset, end: Offset) -> int:
    return StreamRange(EventStream("", "", ""), start, end).size


def _millis(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
