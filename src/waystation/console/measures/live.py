"""Live: all queues and rooms of a store, measured whenever somebody asks."""

import msgspec

from waystation.console.finding.directory import Directory
from waystation.console.finding.names import Places
from waystation.console.measures.sampler import QueueSample, Sampler
from waystation.console.options import ConsoleOptions
from waystation.core.errors import StoreUnsuitable
from waystation.core.events import Product
from waystation.core.store.connection import Store
from waystation.waitingroom.redis.keys import RoomsKeys
from waystation.waitingroom.rooms import Rooms

_EVERY_S = 2.0


class Row(msgspec.Struct, kw_only=True):
    """One queue, or one room, at this moment."""

    product: str
    name: str
    ready: int
    """Jobs that wait and may run; visitors in line."""
    active: int
    """Jobs that workers hold; visitors inside."""
    delayed: int = 0
    failed: int = 0
    paused: bool = False
    workers: int | None = None
    """None where nobody can say."""
    oldest_s: float = 0.0
    """How long the oldest ready job has waited."""
    added_per_s: float = 0.0
    completed_per_s: float = 0.0
    failed_per_s: float = 0.0
    recent: list[int] = []
    """How many were ready at each of the latest measurements."""


class Live:
    """Measures all queues and rooms; rates need two measurements."""

    def __init__(self, store: Store, places: Places | None = None) -> None:
        places = places or Places()
        options = ConsoleOptions(
            prefixes=places.bullmq.every, namespaces=(places.routing,), layouts=(places.files,)
        )
        self._directory = Directory(store, options, most=None)
        self._sampler = Sampler(store, self._directory, every_s=_EVERY_S)
        self._no_rooms: list[str] = []
        self._rooms = Rooms(store)

    async def rows(self) -> list[Row]:
        """Every queue and every room, by product and name."""
        await self._sampler.take()
        return [*map(_row, self._sampler.latest.queues), *await self._room_rows()]

    @property
    def forbidden(self) -> list[str]:
        """Keys that this user of the store may not read, so that what they hold is left out."""
        return [*self._directory.forbidden, *self._no_rooms]

    async def _room_rows(self) -> list[Row]:
        rows: list[Row] = []
        try:
            # One that cannot be read is left out.
            states = await self._rooms.states()
        except StoreUnsuitable:
            self._no_rooms = [RoomsKeys().every]
            return rows
        for room, state in states:
            rows.append(
                Row(
                    product=Product.WAITINGROOM.value,
                    name=room.name,
                    ready=state.waiting,
                    active=state.inside,
                    delayed=state.early,
                    paused=not state.runs,
                    completed_per_s=round(state.flow or 0.0, 2),
                )
            )
        return rows


def _row(sample: QueueSample) -> Row:
    return Row(
        product=sample.product,
        name=sample.name,
        ready=sample.ready,
        active=sample.counts.get("active", 0),
        delayed=sample.counts.get("delayed", 0),
        failed=sample.points[-1].failed,
        paused=sample.paused,
        workers=sample.workers,
        oldest_s=sample.oldest_s,
        added_per_s=sample.added_per_s,
        completed_per_s=sample.completed_per_s,
        failed_per_s=sample.failed_per_s,
        recent=[point.ready for point in sample.points],
    )
