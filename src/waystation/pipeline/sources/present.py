"""Looking at streams as they are now, for a query that ends."""
# ruff: noqa: N802 (Spark calls the methods so)

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import cast

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from waystation.pipeline.products.facts import EVERY_QUEUE
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

_LATEST_SEQ = 2**64 - 1


class EventsReader(DataSourceReader):
    """The streams as they are now, or the part of them that a query looks at."""

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        self._streams = Streams(options)
        self._from_ms, self._to_ms = 0, 2**63 - 1
        self._queues: set[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Look only where keys and ids allow an answer; Spark checks every row once more."""
        for each in filters:
            match each:
                case EqualTo(attribute=("queue",), value=str(queue)):
                    self._only({queue})
                    yield each
                case In(attribute=("queue",), value=queues):
                    self._only(set(cast(Iterable[str], queues)))
                    yield each
                case GreaterThan(attribute=("told_at",), value=datetime() as instant):
                    self._from_ms = max(self._from_ms, _millis(instant))
                    yield each
                case GreaterThanOrEqual(attribute=("told_at",), value=datetime() as instant):
                    self._from_ms = max(self._from_ms, _millis(instant))
                    yield each
                case LessThan(attribute=("told_at",), value=datetime() as instant):
                    self._to_ms = min(self._to_ms, _millis(instant))
                    yield each
                case LessThanOrEqual(attribute=("told_at",), value=datetime() as instant):
                    self._to_ms = min(self._to_ms, _millis(instant))
                    yield each
                case _:
                    yield each

    def partitions(self) -> Sequence[InputPartition]:
        """The stretches that the query looks at, shared out among tasks."""
        stretches = [stretch for told in self._streams.now() for stretch in self._stretches(told)]
        tasks = self._options.tasks or os.cpu_count() or 1
        shares = offsets.packed(stretches, tasks=tasks, least=LEAST_ROWS_A_TASK)
        return [Share(share) for share in shares] or [Share(())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one task's stretches; what is gone is no concern of a look at the present."""
        for batch in rows(self._streams.store, self._options, partition, False):
            if batch.column("_range").null_count:
                yield batch

    def _only(self, queues: set[str]) -> None:
        self._queues = queues if self._queues is None else self._queues & queues

    def _stretches(self, told: Told) -> Iterator[Stretch]:
        if self._queues is not None and told.queue not in {EVERY_QUEUE, *self._queues}:
            return
        end = walking.end_of(self._streams.store.at(told.stream), told.stream)
        if end is None:
            return
        after = Place(f"{self._from_ms - 1}-{_LATEST_SEQ}") if self._from_ms else Place()
        until = min(end, Place(f"{self._to_ms}-{_LATEST_SEQ}", end.added), key=_order)
        if after.order < until.order:
            yield Stretch(told, after, until)


def _order(place: Place) -> tuple[int, int]:
    return place.order


def _millis(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
