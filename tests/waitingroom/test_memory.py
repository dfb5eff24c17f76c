"""What somebody in line costs the store."""

import asyncio
import random

from tests.waitingroom.harness import QUEUE
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import JoinRequest, Lane

AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Safari/537.36"
)
PEOPLE = 10_000
MOST_BYTES = 700


async def test_somebody_in_line_costs_at_most_what_the_spec_says() -> None:
    """W-35, F26: seven hundred bytes, which the spec's own layout misses by far."""
    with embedded.ephemeral() as server:
        async with await connect(server.url) as store:
            room = Room(QUEUE, store, bits=random.Random(1))
            await room.open(RoomOptions(max_queue_size=0, events_cap=100))
            await join_many(room, 0, 100)
            before = (await store.redis.info("memory"))["used_memory"]
            for start in range(100, PEOPLE, 1000):
                await join_many(room, start, min(1000, PEOPLE - start))
            after = (await store.redis.info("memory"))["used_memory"]
    each = (after - before) / (PEOPLE - 100)
    assert each <= MOST_BYTES


async def join_many(room: Room, start: int, count: int) -> None:
    # Every twentieth has bought a better lane, which costs one entry more.
    await asyncio.gather(
        *(
            room.join(
                JoinRequest(
                    key=f"visitor-{each}",
                    secret=f"secret-{each}",
                    lane=Lane(each % 3 + 1) if each % 20 == 0 else Lane.NORMAL,
                    agent=f"{AGENT} {each % 50}",
                )
            )
            for each in range(start, start + count)
        )
    )
