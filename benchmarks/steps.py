"""Durable steps: ours beside DBOS on SQLite, and what they add to a job."""

import asyncio
import statistics
import time
from typing import Any

from benchmarks.peers.run import measure
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES
from waystation.bullmq import Job, Queue, Worker
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect

STEPS = 10
JOBS = 1000
PEER_STEPS = 1000
CONCURRENCY = 50
LATENCIES = 500
ASLEEP = 1000


def run() -> list[Report]:
    """Everything on one server; the two sides take turns."""
    with embedded.ephemeral() as server:
        return asyncio.run(_run(server.url))


async def _run(url: str) -> list[Report]:
    rates: list[float] = []
    theirs: list[float] = []
    for _ in range(TIMES):
        rates.append(await steps_a_second(url))
        peer = await measure("steps_dbos", url, jobs=PEER_STEPS, concurrency=CONCURRENCY)
        theirs.append(peer["perSecond"])
    rate = Row(f"jobs of {STEPS} steps", statistics.median(rates), statistics.median(theirs))
    added, plain = await latencies(url)
    return [
        Report(
            title="Steps done and remembered, each once (median of runs that take turns)",
            unit="steps/s",
            beside="DBOS on SQLite",
            rows=[rate],
            remark="aim: at least 5 times; every run ends with a count of what was done",
        ),
        Report(
            title="A step in a running job (median)",
            unit="ms",
            beside="a PING",
            rows=[Row("one step", added, plain)],
            remark="aim: less than 1 ms on a quiet machine",
        ),
        Report(
            title="A job asleep for 30 days, with one step done",
            unit="bytes",
            beside="1 KB",
            rows=[Row("in the store", await bytes_asleep(url), 1000)],
        ),
    ]


async def nothing(n: int) -> int:
    return n


async def steps_a_second(url: str) -> float:
    """Steps of a backlog, from the first job on; each must have been done exactly once."""
    done: list[str] = []
    finished = asyncio.Event()

    async def handle(job: Job) -> None:
        for number in range(STEPS):
            await job.step(f"step {number}", nothing, number)
        done.append(job.id)
        if len(done) == JOBS:
            finished.set()

    async with await connect(url) as store, Queue("steps", store) as queue:
        await store.redis.flushall()
        await queue.add_many([("order", {"n": n}) for n in range(JOBS)])
        began = time.perf_counter()
        async with Worker("steps", handle, store, concurrency=CONCURRENCY):
            await finished.wait()
            took = time.perf_counter() - began
        await _check(store, queue, done)
    return JOBS * STEPS / took


async def _check(store: Store, queue: Queue, done: list[str]) -> None:
    if len(set(done)) != JOBS:
        raise RuntimeError(f"wanted {JOBS} jobs, {len(set(done))} were done")
    jobs = await queue.get_jobs("completed", limit=None)
    remembered = sum(len(job.steps) for job in jobs)
    if remembered != JOBS * STEPS:
        raise RuntimeError(f"wanted {JOBS * STEPS} steps, {remembered} are remembered")


async def latencies(url: str) -> tuple[float, float]:
    """Milliseconds that a step takes, and a PING."""
    took: list[float] = []
    finished = asyncio.Event()

    async def handle(job: Job) -> None:
        for number in range(LATENCIES):
            began = time.perf_counter()
            await job.step(f"step {number}", nothing, number)
            took.append((time.perf_counter() - began) * 1000)
        finished.set()

    pings: list[float] = []
    async with await connect(url) as store, Queue("latency", store) as queue:
        await store.redis.flushall()
        async with Worker("latency", handle, store):
            await queue.add("order")
            await finished.wait()
        for _ in range(LATENCIES):
            began = time.perf_counter()
            await store.hot.execute_command("PING")
            pings.append((time.perf_counter() - began) * 1000)
    return statistics.median(took), statistics.median(pings)


async def bytes_asleep(url: str) -> float:
    """What one sleeping job takes of the store's memory, indexes included."""

    async def handle(job: Job) -> None:
        await job.step("charge", nothing, 7)
        await job.sleep(days=30)

    async def used(store: Store) -> int:
        found: Any = await store.redis.info("memory")
        return found["used_memory"]

    async with await connect(url) as store, Queue("asleep", store) as queue:
        await store.redis.flushall()
        await queue.trim_events(0)
        before = await used(store)
        async with Worker("asleep", handle, store, concurrency=CONCURRENCY):
            await queue.add_many([("order", {"customer": "ada", "n": n}) for n in range(ASLEEP)])
            while (await queue.counts("delayed"))["delayed"] < ASLEEP:
                await asyncio.sleep(0.05)
        await queue.trim_events(0)
        return (await used(store) - before) / ASLEEP
