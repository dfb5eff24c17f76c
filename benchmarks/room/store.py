"""What a waiting room costs its store: memory, the price of a full line, and admission."""

import asyncio
import os
import random
import time
from functools import partial
from itertools import count, product
from typing import Self

from benchmarks.report import Report, Row
from benchmarks.turns import interleaved
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect
from waystation.waitingroom import Admission, Joined, JoinRequest, Place, Room, RoomOptions

SMALL, MIDDLE = 10_000, 100_000
LARGE = int(os.environ.get("BENCH_PEOPLE", "1_000_000"))
ADMITTED = 10_000
CALLS = 2_000
AT_ONCE = 500
STEPS = ("status", "heartbeat", "join")
"""In this order, because whoever joins makes the short line longer."""
ASKING = (32, AT_ONCE)
"""People who ask at the same moment: as many as at the HTTP API, and a crowd that shares a call."""
MEMORY_BYTES = 700
AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Safari/537.36"
)


def run() -> list[Report]:
    """Measure a short line and a long one beside each other in one server."""
    return asyncio.run(_run())


async def _run() -> list[Report]:
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url) as store:
            short = await _Line.open(store, "{theatre-tickets}")
            await short.grow(SMALL)
            before = await _memory(store)
            long = await _Line.open(store, "{concert-tickets}")
            memory: dict[int, float] = {}
            for people in (MIDDLE, LARGE):
                await long.grow(people)
                memory[people] = (await _memory(store) - before) / people
            prices = {
                f"{step}, {at_once} at a time": await interleaved(
                    partial(short.price, step, at_once), partial(long.price, step, at_once)
                )
                for step, at_once in product(STEPS, ASKING)
            }
            admission = await _admission(long.room, store)
    return [
        Report(
            title="Memory of somebody in line, with a real user agent",
            unit="bytes",
            beside="at most",
            rows=[
                Row(f"{people:,} in line", each, MEMORY_BYTES) for people, each in memory.items()
            ],
        ),
        Report(
            title="The price of a long line",
            unit=f"µs at {LARGE:,}",
            beside=f"µs at {SMALL:,}",
            rows=[Row(step, at_long, at_short) for step, (at_short, at_long) in prices.items()],
            remark="Time of the store's processor for one call; at most 1.5 times.",
        ),
        Report(
            title=f"Calling {ADMITTED:,} people in",
            unit="seconds",
            beside="at most",
            rows=[Row("time of the store's processor", admission, 1.0)],
        ),
    ]


class _Line:
    """A room, and everybody in it."""

    def __init__(self, store: Store, room: Room) -> None:
        self.room = room
        self._store = store
        self._places: list[Place] = []
        self._newcomers = count()
        self._dice = random.Random(2)

    @classmethod
    async def open(cls, store: Store, queue_id: str) -> Self:
        """A room that lets nobody in."""
        room = Room(queue_id, store, bits=random.Random(1))
        await room.open(RoomOptions(max_queue_size=0, events_cap=1000, admission_rate=0))
        return cls(store, room)

    async def grow(self, people: int) -> None:
        """Let people join until there are so many."""
        while (missing := people - len(self._places)) > 0:
            await asyncio.gather(*(self._join() for _ in range(min(missing, AT_ONCE))))

    async def price(self, step: str, at_once: int) -> float:
        """Microseconds of the store's processor that one call costs, so many at a time."""
        take = {"status": self._status, "heartbeat": self._heartbeat, "join": self._join}[step]
        before = await _processor(self._store)
        for _ in range(CALLS // at_once):
            await asyncio.gather(*(take() for _ in range(at_once)))
        spent = await _processor(self._store) - before
        return spent * 1e6 / (CALLS // at_once * at_once)

    async def _join(self) -> None:
        number = next(self._newcomers)
        who = JoinRequest(
            key=f"visitor {number}", secret=f"{number}", agent=f"{AGENT} {number % 50}"
        )
        entry = await self.room.join(who)
        assert isinstance(entry, Joined)
        self._places.append(entry.place)

    async def _heartbeat(self) -> None:
        await self.room.heartbeat(self._dice.choice(self._places))

    async def _status(self) -> None:
        await self.room.status(self._dice.choice(self._places))


async def _admission(room: Room, store: Store) -> float:
    await room.open(
        RoomOptions(admission_rate=ADMITTED, max_active=10 * ADMITTED, max_queue_size=0)
    )
    before = await _processor(store)
    began = time.monotonic()
    called = 0
    while called < ADMITTED and time.monotonic() - began < 60:
        called += len((await Admission(room).admit()).called)
    return (await _processor(store) - before) * ADMITTED / called


async def _memory(store: Store) -> float:
    return float((await store.redis.info("memory"))["used_memory"])


async def _processor(store: Store) -> float:
    used = await store.redis.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
