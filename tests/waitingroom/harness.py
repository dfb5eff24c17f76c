"""A waiting room that a test moves step by step, on a clock turned by hand."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator
from typing import Any

from redis.asyncio import Redis

from waystation.core.clock import HandClock
from waystation.core.store.connection import Store, connect
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis.keys import RoomKeys
from waystation.waitingroom.room import Room
from waystation.waitingroom.running import Admission, Upkeep
from waystation.waitingroom.visitor import (
    Begun,
    Joined,
    JoinRequest,
    Kept,
    Lane,
    Place,
    VisitorStatus,
    Waiting,
)

QUEUE = "{concert-tickets}"


class Harness:
    """A room with one short method for each thing that visitors or the room do."""

    def __init__(self, store: Store, queue_id: str = QUEUE) -> None:
        self.store = store
        self.redis: Redis = store.redis
        self.clock = HandClock()
        self.room = Room(queue_id, store, clock=self.clock, bits=random.Random(7))
        self.keys: RoomKeys = self.room.store.keys
        self.admission = Admission(self.room)
        self.upkeep = Upkeep(self.room, budget_s=60)
        self.control = Control(self.room)
        self.lottery = Lottery(self.room)
        self.places: dict[str, Place] = {}

    async def open(self, **options: Any) -> None:
        defaults: dict[str, Any] = {"newcomers_per_minute": 0}
        await self.room.open(RoomOptions(**{**defaults, **options}))

    async def join(self, name: str, lane: int = 0, **more: Any) -> Place:
        """Join a visitor whose key and secret are `name`."""
        entry = await self.room.join(JoinRequest(key=name, secret=name, lane=Lane(lane), **more))
        assert isinstance(entry, Joined | Kept), entry
        self.places[name] = entry.place
        return entry.place

    async def join_all(self, *names: str, lane: int = 0) -> None:
        await self.room.state()
        # Calls made in one turn of the loop reach the store in that order.
        await asyncio.gather(*(self.join(name, lane) for name in names))

    async def admit(self) -> list[str]:
        """Admit whoever may enter; return their names."""
        return self.names((await self.admission.admit()).called)

    async def claim(self, name: str) -> object:
        return await self.room.claim(self.places[name], name)

    async def come_in(self, name: str) -> None:
        assert isinstance(await self.claim(name), Begun)

    async def status(self, name: str) -> VisitorStatus:
        return await self.room.status(self.places[name])

    async def waiting(self, name: str) -> Waiting:
        """Return the place of a visitor who waits."""
        status = await self.status(name)
        assert isinstance(status, Waiting), status
        return status

    async def beat(self, *names: str) -> None:
        for name in names:
            await self.room.heartbeat(self.places[name])

    async def pass_time(self, seconds: float) -> None:
        """Turn the clock, and let what the server forgets by a clock of its own grow as old."""
        await self.clock.advance(seconds)
        for place in self.places.values():
            keys = self.keys.of(place.id, visitor=place.owner)
            for key in (keys.position, keys.owner, keys.session):
                left_ms = await self.redis.pttl(key) - round(seconds * 1000)
                # No time at all deletes it.
                await self.redis.pexpire(key, max(0, left_ms))

    async def expire(self) -> list[str]:
        return self.names(await self.upkeep.expire_silent())

    def names(self, ids: Any) -> list[str]:
        known = {place.id: name for name, place in self.places.items()}
        return [known[id] for id in ids]

    async def hash(self, key: str) -> dict[str, str]:
        found: Any = await self.redis.hgetall(key)
        return {name.decode(): value.decode() for name, value in found.items()}

    async def members(self, key: str) -> list[str]:
        found: Any = await self.redis.zrange(key, 0, -1)
        return self.names(each.decode() for each in found)

    async def position(self, name: str) -> dict[str, str]:
        return await self.hash(self.keys.of(self.places[name].id).position)

    async def events(self) -> list[dict[str, str]]:
        found: Any = await self.redis.xrange(self.keys.events)
        return [{k.decode(): v.decode() for k, v in fields.items()} for _, fields in found]

    async def event_names(self, name: str) -> list[str]:
        id = self.places[name].id
        return [each["event"] for each in await self.events() if each.get("subject") == id]


@contextlib.asynccontextmanager
async def harness_on(url: str, queue_id: str = QUEUE) -> AsyncGenerator[Harness]:
    """Open a harness of one room."""
    async with await connect(url) as store:
        yield Harness(store, queue_id)
