"""A waiting room while its store dies, freezes and forgets: everybody comes in exactly once."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from redis.asyncio import Redis

from tests.support.size import size
from waystation.core.errors import StoreError
from waystation.core.store import embedded
from waystation.core.store.connection import StoreOptions, connect
from waystation.core.store.embedded import Ephemeral
from waystation.waitingroom import (
    Admission,
    Begun,
    Joined,
    JoinRequest,
    Kept,
    Place,
    Room,
    RoomOptions,
    Upkeep,
)

QUEUE = "{chaos}"
PATIENT = StoreOptions(call_timeout=2.0)
VISITORS = size(100, full=300)
T = TypeVar("T")


@pytest.fixture
def durable() -> Iterator[Ephemeral]:
    """A server that has written down whatever it acknowledges."""
    with embedded.ephemeral({"appendonly": "yes", "appendfsync": "always"}) as server:
        yield server


async def insisting(step: Callable[[], Awaitable[T]]) -> T:
    """Ask again until the store answers, not knowing whether it did it the first time."""
    while True:
        try:
            return await step()
        except StoreError:
            await asyncio.sleep(0.05)


async def visit(room: Room, name: str) -> Place:
    """Join, wait, come in, and be done: what a browser does, whatever breaks."""
    entry = await insisting(lambda: room.join(JoinRequest(key=name, secret=name)))
    assert isinstance(entry, Joined | Kept)
    place = entry.place
    while not isinstance(await insisting(lambda: room.claim(place, name)), Begun):
        await asyncio.sleep(0.2)
    await insisting(lambda: room.complete(place))
    return place


async def arrive(room: Room) -> list[Place]:
    visits: list[asyncio.Task[Place]] = []
    for number in range(VISITORS):
        visits.append(asyncio.create_task(visit(room, f"visitor {number}")))
        await asyncio.sleep(0.01)
    return await asyncio.gather(*visits)


async def look_after(url: str) -> None:
    """One of several processes that call people in, none knowing of the others."""
    async with await connect(url, PATIENT) as store:
        room = Room(QUEUE, store)
        admission, upkeep = Admission(room), Upkeep(room)
        while True:
            await insisting(admission.admit)
            await insisting(upkeep.expire_silent)
            await asyncio.sleep(0.05)


async def break_things(server: Ephemeral, rounds: int) -> None:
    for number in range(rounds):
        await asyncio.sleep(random.uniform(0.3, 0.7))
        if number % 2:
            async with Redis.from_url(server.url, protocol=2) as redis:
                await redis.script_flush()
            server.freeze()
            await asyncio.sleep(0.4)
            server.thaw()
        else:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)


@pytest.mark.slow
@pytest.mark.full
async def test_everybody_comes_in_once_and_in_order_whatever_breaks(durable: Ephemeral) -> None:
    """Attack 50: no double admission and nobody lost over crashes of the store."""
    async with await connect(durable.url, PATIENT) as store:
        room = Room(QUEUE, store)
        await room.open(
            RoomOptions(
                admission_rate=VISITORS / 5,
                max_active=40,
                events_cap=1_000_000,
                newcomers_per_minute=0,
            )
        )
        keepers = [asyncio.create_task(look_after(durable.url)) for _ in range(2)]
        trouble = asyncio.create_task(break_things(durable, rounds=size(3, full=6)))
        places = await arrive(room)
        await trouble
        for keeper in keepers:
            keeper.cancel()
        await asyncio.wait(keepers)
        found: Any = await store.redis.xrange(room.store.keys.events)
        seen = await room.state()

    assert len({place.id for place in places}) == VISITORS
    called = [fields for _, fields in found if fields[b"event"] == b"admitted"]
    times = Counter(fields[b"subject"].decode() for fields in called)
    assert times == Counter(place.id for place in places)
    claimed = Counter(f[b"subject"] for _, f in found if f[b"event"] == b"claimed")
    assert max(claimed.values()) == 1
    assert sum(claimed.values()) == VISITORS
    order = [int(fields[b"seq"]) for fields in called]
    assert all(before < after for before, after in pairwise(order))
    inside = most = 0
    for _, fields in found:
        inside += {b"admitted": 1, b"completed": -1}.get(fields[b"event"], 0)
        most = max(most, inside)
    assert most <= 40
    assert (seen.waiting, seen.called, seen.inside) == (0, 0, 0)
