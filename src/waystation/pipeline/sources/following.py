"""Following streams from place to place, for a streaming query."""
# ruff: noqa: N802 (Spark calls the methods so)

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from waystation.pipeline.sources import offsets, walking
from waystation.pipeline.sources.offsets import Place, Stretch, Told
from waystation.pipeline.sources.streams import (
    LEAST_ROWS_A_TASK,
    EventOptions,
    Share,
    Streams,
    rows,
)
from waystation.pipeline.storage.arrow import Batch


class EventsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streams followed from place to place."""

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        self._streams = Streams(options)
        self._goal: dict[str, Place] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a new follower starts."""
        match self._options.starting:
            case "earliest":
                return offsets.write({})
            case "latest":
                return offsets.write(self._ends())
            case text:
                return offsets.write(offsets.read(msgspec.json.decode(text)))

    def prepareForTriggerAvailableNow(self) -> None:
        """Settle how far this run goes."""
        self._goal = self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much one batch takes."""
        most = self._options.per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes."""
        here = offsets.read(start)
        ends = self._ends() if self._goal is None else self._goal
        moved = {stream: end for stream, end in ends.items() if end != here.get(stream, Place())}
        if isinstance(limit, ReadMaxRows):
            moved = self._within(here, moved, limit.max_rows)
        return offsets.write({**here, **moved})

    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the streams have come; the difference is the lag."""
        return offsets.write(self._ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The stretches of one batch, shared out among tasks."""
        until = offsets.read(end)
        stretches = offsets.between(offsets.read(start), until, self._streams.known(until))
        tasks = self._options.tasks or os.cpu_count() or 1
        shares = offsets.packed(stretches, tasks=tasks, least=LEAST_ROWS_A_TASK)
        return [Share(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one task's stretches."""
        yield from rows(self._streams.store, self._options, partition, self._options.accounts)

    def commit(self, end: dict[str, Any]) -> None:
        """Let go of what a finished batch holds, if that was asked for."""
        if self._options.trim:
            for stream, place in offsets.read(end).items():
                client = self._streams.store.at(stream)
                client.execute_command("XTRIM", stream, "MINID", "~", offsets.following(place.id))

    def _ends(self) -> dict[str, Place]:
        ends = {
            told.stream: walking.end_of(self._streams.store.at(told.stream), told.stream)
            for told in self._streams.now()
        }
        return {stream: end for stream, end in ends.items() if end is not None}

    def _within(
        self, here: Mapping[str, Place], ends: Mapping[str, Place], most: int
    ) -> dict[str, Place]:
        """Nearer ends, so that all stretches together have no more entries than allowed."""
        nearer: dict[str, Place] = {}
        left = most
        # The smallest first: what they leave of their shares goes to the others.
        streams = sorted(ends, key=lambda each: _size(here.get(each, Place()), ends[each]))
        for turn, stream in enumerate(streams):
            share = max(1, left // (len(streams) - turn))
            start, end = here.get(stream, Place()), ends[stream]
            if end.order > start.order and (end.added is None or _size(start, end) > share):
                near = walking.some_way(self._streams.store.at(stream), stream, start, share)
                end = near if near.order < end.order else end
            nearer[stream] = end
            left -= min(share, _size(start, end))
        return nearer


def _size(start: Place, end: Place) -> int:
    return Stretch(Told("", "", ""), start, end).size
