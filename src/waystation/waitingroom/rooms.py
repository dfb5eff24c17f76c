"""Lookup of rooms by the name that visitors see."""

import re

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import NotFound
from waystation.core.store.connection import Store
from waystation.waitingroom.redis.keys import RoomsKeys, name_of, room_id
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState

FRESH_S = 1.0
"""How long a look at the list of rooms may serve."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_name(text: str) -> bool:
    """Whether a room may be called that: it stands in paths and in names of cookies."""
    return _NAME.fullmatch(text) is not None


class Rooms:
    """All rooms; one `Room` each for the whole process."""

    def __init__(
        self, store: Store, *, clock: Clock | None = None, time: Clock | None = None
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self._room_clock = time
        self._open: dict[str, Room] = {}
        self._ids: dict[str, str] = {}
        self._seen = float("-inf")

    def known(self, name: str) -> Room | None:
        """The room of this name, if that can be said without asking the store."""
        id = self._ids.get(name)
        if id is None or self.clock.monotonic() - self._seen > FRESH_S:
            return None
        return self._open.get(id)

    async def find(self, name: str) -> Room:
        """The room of this name; NotFound when there is none."""
        if room := self.known(name):
            return room
        await self.look()
        id = self._ids.get(name)
        if id is None:
            raise NotFound("there is no room of that name")
        return self.of(id)

    async def visit(self, name: str) -> tuple[Room, RoomState]:
        """The room of this name and its state, at most a second old."""
        room = self.known(name) or await self.find(name)
        return room, room.store.recent_state() or await room.store.state(STATE_S)

    def of(self, queue_id: str) -> Room:
        """The room of this id, whether or not it has been set up."""
        id = room_id(queue_id)
        if id not in self._open:
            self._open[id] = Room(id, self.store, clock=self._room_clock)
        return self._open[id]

    async def look(self) -> list[str]:
        """The ids of all rooms, as they are now."""
        raw = await self.store.ask("SMEMBERS", RoomsKeys().every)
        # An id without braces is nobody's: no room is kept under it.
        ids = sorted(id for each in raw if (id := each.decode()) == room_id(id))
        self._ids = {name_of(id): id for id in ids if is_name(name_of(id))}
        self._seen = self.clock.monotonic()
        return ids

    async def recent(self) -> list[str]:
        """The ids of all rooms, as they were at most a second ago."""
        if self.clock.monotonic() - self._seen > FRESH_S:
            return await self.look()
        return list(self._ids.values())

    def forget(self) -> None:
        """Look again before the next answer."""
        self._seen = float("-inf")
