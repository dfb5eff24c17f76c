"""Lookup of rooms by the name that visitors see."""

import asyncio
import re
from collections.abc import Sequence

from waystation.core.clock import Clock, SystemClock
from waystation.core.codec import as_text
from waystation.core.errors import NotFound, StoreUnreachable
from waystation.core.store import keyspace
from waystation.core.store.connection import Store
from waystation.core.telemetry.logs import describe, get_logger
from waystation.waitingroom.redis.keys import RoomsKeys, name_of, room_id
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState

REPORT_EVERY_S = 60.0
FRESH_S = 1.0
"""How long a look at the list of rooms may serve."""

_log = get_logger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_name(text: str) -> bool:
    """Whether a room may be called that: it stands in paths and in names of cookies."""
    return _NAME.fullmatch(text) is not None


def may_be_room(id: str) -> bool:
    """Whether this is the id of a room; the list of rooms may hold what others put there.

    An id without braces is nobody's: no room is kept under it.
    """
    return id == room_id(id) and keyspace.is_name(id)


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
        self._reported: dict[tuple[str, str], float] = {}
        """When it may be said again what is wrong with a room."""
        self._left_out: set[str] = set()
        """What is no room, and has been reported."""

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
        try:
            raw = await self.store.ask("SMEMBERS", RoomsKeys().every)
        except StoreUnreachable:
            # The list lies on one node of a cluster; the rooms of the others go on.
            if not self._ids:
                raise
            return list(self._ids.values())
        listed = sorted(as_text(each) for each in raw)
        ids = [id for id in listed if may_be_room(id)]
        if len(ids) < len(listed):
            self._report_left_out(set(listed) - set(ids))
        self._ids = {name_of(id): id for id in ids if is_name(name_of(id))}
        self._seen = self.clock.monotonic()
        return ids

    def _report_left_out(self, ids: set[str]) -> None:
        """Say once what another program has put on the list of rooms."""
        for id in sorted(ids - self._left_out):
            _log.warning("room_left_out", queue=id[: keyspace.LONGEST_NAME])
        self._left_out = ids

    async def states(self, max_age_s: float = 0.0) -> list[tuple[Room, RoomState]]:
        """All rooms with their states; one that cannot be read is left out, and reported."""
        looked = await self.each_state(max_age_s)
        return [(room, state) for room, state in looked if state]

    async def each_state(self, max_age_s: float = 0.0) -> list[tuple[Room, RoomState | None]]:
        """All rooms that are set up, with their states, or None where one cannot be read.

        StoreUnreachable when all of them are out of reach.
        """
        rooms = [self.of(id) for id in await self.look()]
        reading = (room.store.state(max_age_s) for room in rooms)
        found = await asyncio.gather(*reading, return_exceptions=True)
        self.require_any(found)
        states = list[tuple[Room, RoomState | None]]()
        for room, state in zip(rooms, found, strict=True):
            if isinstance(state, Exception):
                self.report(room, "state", state)
            elif isinstance(state, BaseException):
                raise state
            if not isinstance(state, NotFound):
                states.append((room, None if isinstance(state, Exception) else state))
        return states

    @staticmethod
    def require_any(found: Sequence[object]) -> None:
        """Raise what is wrong with the store if it has hit every room, not only one node's."""
        away = [each for each in found if isinstance(each, StoreUnreachable)]
        if away and len(away) == len(found):
            raise away[0]

    def report(self, room: Room, duty: str, error: Exception) -> None:
        """Log what is wrong with one room, not more than once in a minute."""
        now = self.clock.monotonic()
        if now < self._reported.get((room.name, duty), now):
            return
        self._reported[room.name, duty] = now + REPORT_EVERY_S
        _log.error("room_failed", queue=room.name, duty=duty, **describe(error))

    async def recent(self) -> list[str]:
        """The ids of all rooms, as they were at most a second ago."""
        if self.clock.monotonic() - self._seen > FRESH_S:
            return await self.look()
        return list(self._ids.values())

    def forget(self) -> None:
        """Look again before the next answer."""
        self._seen = float("-inf")
