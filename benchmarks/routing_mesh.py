"""A mesh: many routing workers in one process, each of them another target.

Every figure is compared with one worker of the same run, except how long they take to start.
"""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from benchmarks.report import Report, Row
from waystation.core.store import embedded
from waystation.core.store.connection import Store, StoreOptions, connect
from waystation.routing import Job, JobOptions, Queue, Target, Worker

SIZES = (1, 20, 100, 200)
DISPATCHES = 40
REST_S = 5.0


class Figures(msgspec.Struct, frozen=True):
    """What was seen of one mesh."""

    started_s: float
    connections: float
    scripts_a_second: float
    named_ms: float
    """From dispatch to run, for a job that names its worker."""
    any_ms: float
    """The same for a job that every worker could take."""


def run() -> list[Report]:
    """Every size on a server of its own."""
    seen: dict[int, Figures] = {}
    for size in SIZES:
        with embedded.ephemeral() as server:
            seen[size] = asyncio.run(measured(server.url, size))
    one = seen[SIZES[0]]

    def report(title: str, unit: str, field: str, remark: str = "") -> Report:
        rows = [
            Row(f"{size} workers", getattr(found, field), getattr(one, field))
            for size, found in seen.items()
        ]
        return Report(title=title, unit=unit, beside="1 worker", rows=rows, remark=remark)

    return [
        report(
            "From dispatch to run, for a job that names its worker (median)",
            "ms",
            "named_ms",
            "aim: at most 3 with 200 workers in the process",
        ),
        report("From dispatch to run, for a job that any worker could take", "ms", "any_ms"),
        report("Connections of the process", "connections", "connections"),
        report(
            "Scripts at rest", "scripts/s", "scripts_a_second", "aim: at most 10 with 200 workers"
        ),
        report("Starting them all at once", "s", "started_s"),
    ]


async def measured(url: str, size: int) -> Figures:
    """Start a mesh of this size, let it rest, and send it jobs one at a time."""
    ran: asyncio.Queue[float] = asyncio.Queue()

    async def handle(job: Job) -> None:
        ran.put_nowait(time.perf_counter())

    names = [f"w{number}" for number in range(size)]
    async with AsyncExitStack() as stack:
        onlooker = StoreOptions(client_name="onlooker")
        store = await stack.enter_async_context(await connect(url, onlooker))
        queue = Queue(store)
        began = time.perf_counter()
        workers = [Worker({"t": handle}, url, server=name) for name in names]
        await asyncio.gather(*(worker.start() for worker in workers))
        started_s = time.perf_counter() - began
        for worker in workers:
            stack.push_async_callback(worker.close)
        # Until the first looks, the election and the first rounds of the upkeep are over.
        await asyncio.sleep(REST_S)
        connections = await _connections(store)
        resting = await _scripts_a_second(store)
        named = [JobOptions(target=Target(server=name)) for name in names]

        async def took_ms(options: JobOptions) -> float:
            at = time.perf_counter()
            await queue.add("t", None, options)
            spent = 1000 * (await ran.get() - at)
            await asyncio.sleep(0.05)
            return spent

        each = [await took_ms(named[(7 * turn) % size]) for turn in range(DISPATCHES)]
        anyone = [await took_ms(JobOptions()) for _ in range(DISPATCHES)]
    return Figures(
        started_s, connections, resting, statistics.median(each), statistics.median(anyone)
    )


async def _connections(store: Store) -> int:
    clients: Any = await store.redis.client_list()
    return sum(client["name"] != "onlooker" for client in clients)


async def _scripts_a_second(store: Store) -> float:
    before, began = await _scripts(store), time.perf_counter()
    await asyncio.sleep(REST_S)
    return (await _scripts(store) - before) / (time.perf_counter() - began)


async def _scripts(store: Store) -> int:
    stats = await store.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))
