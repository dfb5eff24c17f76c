"""Admission: visitors called in as turns and seats allow."""

from waystation.core.errors import InvalidOption
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.redis.scripts import Round
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Lane

BATCH = 1000
"""Visitors admitted by one script call, so that no call blocks the others for long."""


class Admission:
    """Admits visitors; several processes may run it at once, and nobody is admitted twice."""

    def __init__(self, room: Room, *, batch: int = BATCH) -> None:
        if not 1 <= batch <= BATCH:
            raise InvalidOption(f"batch must be 1 to {BATCH}, got {batch}")
        self._room = room
        self._batch = batch

    async def admit(self) -> Round:
        """Admit everybody there is a turn and a seat for."""
        called: list[str] = []
        no_shows = ended = 0
        while True:
            step = await self._step(0, None)
            called += step.called
            no_shows += step.no_shows
            ended += step.ended
            if len(step.called) < self._batch:
                return Round(called, no_shows, ended, step.waiting)

    async def admit_now(self, count: int, *, lane: Lane | None = None) -> Round:
        """Admit that many at once regardless of the rate, as long as there are seats."""
        if not 1 <= count <= BATCH:
            raise InvalidOption(f"count must be 1 to {BATCH}, got {count}")
        return await self._step(count, lane)

    async def _step(self, extra: int, lane: Lane | None) -> Round:
        return await scripts.admit(
            await self._room.store.client(),
            self._room.store.keys_now(),
            queue=self._room.queue_id,
            now=self._room.store.now(),
            most=extra or self._batch,
            extra=extra,
            only="" if lane is None else int(lane),
        )
