"""Upkeep: silent visitors expired and lists compacted."""

from waystation.core.clock import Clock, SystemClock
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Lane

BATCH = 500
BUDGET_S = 0.02
LONGEST_LIST = 20_000
"""A longer list is left alone: rebuilding it in one call would block everybody."""


class Upkeep:
    """Expiry and compaction of a room, one bounded pass each."""

    def __init__(
        self, room: Room, *, budget_s: float = BUDGET_S, clock: Clock | None = None
    ) -> None:
        self._room = room
        self._budget_s = budget_s
        self._clock = clock or SystemClock()

    async def expire_silent(self) -> list[str]:
        """Expire silent visitors, as many as the time budget allows; return their ids."""
        began = self._clock.monotonic()
        silent: list[str] = []
        while True:
            swept = await scripts.expire(
                await self._room.store.client(),
                self._room.store.keys_now(),
                queue=self._room.queue_id,
                batch=BATCH,
                now=self._room.store.now(),
            )
            silent += swept.silent
            done = len(swept.silent) < BATCH and swept.lost < BATCH
            if done or self._clock.monotonic() - began > self._budget_s:
                return silent

    async def compact(self) -> int:
        """Remove stale entries where they are most of a lane's list; return how many."""
        client = await self._room.store.client()
        gone = 0
        for lane in Lane:
            gone += await scripts.compact(
                client, self._room.store.keys, lane=int(lane), most=LONGEST_LIST
            )
        return gone
