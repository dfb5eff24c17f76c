"""What a waiting room costs its store: memory, the price of a full line, and admission."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from itertools import count, pairwise, product

from benchmarks.report import Report, Row
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect
from waystation.queues.waitingroom import Admission, Joined, Newcomer, Place, Room, RoomOptions

SMALL, MIDDLE = 10_000, 100_000
LARGE = int(os.environ.get("BENCH_PEOPLE", "1_000_000"))
ADMITTED = 10_000
CALLS = 8_000
AT_ONCE = 500
ASKING = (32, AT_ONCE)
"""People who ask at the same moment: as many as at the doors, and a crowd that shares a call."""
MEMORY_BYTES = 700
AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Safari/537.36"
)


def run() -> list[Report]:
    """Measure one server with a short line and the same with a long one."""
    return asyncio.run(_run())


async def _run() -> list[Report]:
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url) as store:
            room = Room(store, "{concert-tickets}", bits=random.Random(1))
            options = RoomOptions(max_queue_size=0, events_cap=1000, admission_rate=0)
            await room.open(options)
            empty = await _memory(store)
            places = await _fill(room, 0, SMALL)
            short = await _prices(room, store, places, SMALL)
            memory: dict[int, float] = {}
            for before, people in pairwise((SMALL + len(ASKING) * CALLS, MIDDLE, LARGE)):
                places += await _fill(room, before, people)
                memory[people] = (await _memory(store) - empty) / (await room.pulse()).waiting
            long = await _prices(room, store, places, LARGE)
            admission = await _admission(room, store)
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
            rows=[Row(name, long[name], short[name]) for name in short],
            remark="Time of the store's processor for one call; at most 1.5 times.",
        ),
        Report(
            title=f"Calling {ADMITTED:,} people in",
            unit="seconds",
            beside="at most",
            rows=[Row("time of the store's processor", admission, 1.0)],
        ),
    ]


async def _fill(room: Room, start: int, end: int) -> list[Place]:
    places: list[Place] = []
    for first in range(start, end, AT_ONCE):
        people = range(first, min(end, first + AT_ONCE))
        for entry in await asyncio.gather(*(room.join(_somebody(each)) for each in people)):
            assert isinstance(entry, Joined)
            places.append(entry.place)
    return places


def _somebody(number: int) -> Newcomer:
    return Newcomer(key=f"visitor {number}", secret=f"{number}", agent=f"{AGENT} {number % 50}")


async def _prices(room: Room, store: Store, places: list[Place], start: int) -> dict[str, float]:
    dice = random.Random(2)
    chosen = [dice.choice(places) for _ in range(CALLS)]
    newcomers = count(start)
    steps: dict[str, Callable[[int], Awaitable[object]]] = {
        "join": lambda each: room.join(_somebody(next(newcomers))),
        "heartbeat": lambda each: room.heartbeat(chosen[each]),
        "status": lambda each: room.status(chosen[each]),
    }
    prices: dict[str, float] = {}
    for at_once, (name, step) in product(ASKING, steps.items()):
        before = await _processor(store)
        for first in range(0, CALLS, at_once):
            await asyncio.gather(*(step(each) for each in range(first, first + at_once)))
        spent = await _processor(store) - before
        prices[f"{name}, {at_once} at a time"] = spent * 1e6 / CALLS
    return prices


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
