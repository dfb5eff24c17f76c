"""BullMQ: our worker beside Node's, the Python port's, and what the store itself can do."""

import asyncio
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.bullmq import ceiling, growth
from benchmarks.peers.run import measure, measure_ours
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES, interleaved
from waystation.core.store import embedded
from waystation.core.store.connection import connect

JOBS = 20_000
BACKLOG = 1_000_000


def run() -> list[Report]:
    """Everything in one interleaved run on one server."""
    with embedded.ephemeral() as server:
        return asyncio.run(_run(server.url))


async def _run(url: str) -> list[Report]:
    return [await _drain(url), await _rates(url), await _times(url), await _growth(url)]


async def _drain(url: str) -> Report:
    async def ours(**options: int) -> float:
        return (await measure_ours("drain", url, **options))["perSecond"]

    async def node(**options: int) -> float:
        return (await measure("node_drain", url, **options))["perSecond"]

    async def port() -> float:
        return (await measure("drain_bullmq", url, jobs=JOBS // 4, concurrency=40))["perSecond"]

    async def store() -> float:
        return await asyncio.to_thread(ceiling.drain_rate, url, JOBS)

    fast, theirs, ported, most, one, node_one = await interleaved(
        lambda: ours(concurrency=200),
        lambda: node(concurrency=200),
        port,
        store,
        lambda: ours(concurrency=1, jobs=JOBS // 4),
        lambda: node(concurrency=1, jobs=JOBS // 4),
    )
    return Report(
        title=f"Emptying a queue of {JOBS:,} jobs that do nothing, one worker process",
        unit="ours, jobs/s",
        beside="theirs",
        rows=[
            Row("beside Node BullMQ, concurrency 200", fast, theirs),
            Row("beside the official Python port", fast, ported),
            Row("beside the store's own ceiling", fast, most),
            Row("beside Node BullMQ, concurrency 1", one, node_one),
        ],
        remark="aim: 2.5, 12 and 0.7; no loss at concurrency 1",
    )


async def _rates(url: str) -> Report:
    async def ours() -> dict[str, Any]:
        return await measure_ours("add", url)

    async def node() -> dict[str, Any]:
        return await measure("node_add", url)

    async def store() -> float:
        return await asyncio.to_thread(ceiling.add_rate, url, 5 * JOBS)

    rounds = [(await ours(), await node(), await store()) for _ in range(TIMES)]

    def median(pick: Callable[[tuple[Any, Any, Any]], float]) -> float:
        return statistics.median(pick(each) for each in rounds)

    bulk = median(lambda each: each[0]["bulkPerSecond"])
    return Report(
        title="Adding jobs",
        unit="ours, jobs/s",
        beside="theirs",
        rows=[
            Row("add_many beside Node's addBulk", bulk, median(lambda e: e[1]["bulkPerSecond"])),
            Row("add_many beside the store's own ceiling", bulk, median(lambda each: each[2])),
            Row(
                "add, 50 under way, beside Node",
                median(lambda each: each[0]["togetherPerSecond"]),
                median(lambda each: each[1]["togetherPerSecond"]),
            ),
        ],
        remark="aim: add_many at 0.7 of the ceiling",
    )


async def _times(url: str) -> Report:
    names = {"p50Ms": "p50", "p99Ms": "p99"}
    rounds = [
        (
            await measure_ours("latency", url, jobs=1000),
            await measure("node_latency", url, jobs=1000),
            await measure_ours("add", url, jobs=1000),
            await measure("node_add", url, jobs=1000),
        )
        for _ in range(TIMES)
    ]

    def median(side: int, key: str) -> float:
        return statistics.median(each[side][key] for each in rounds)

    rows = [
        Row(f"from add to the handler at 200 jobs/s, {name}", median(0, key), median(1, key))
        for key, name in names.items()
    ]
    rows += [
        Row(
            f"add alone, {name}",
            median(2, f"alone{key[0].upper()}{key[1:]}"),
            median(3, f"alone{key[0].upper()}{key[1:]}"),
        )
        for key, name in names.items()
    ]
    return Report(
        title="Waiting times beside Node BullMQ",
        unit="ours, ms",
        beside="Node's",
        rows=rows,
        remark="aim: no worse than Node",
    )


async def _growth(url: str) -> Report:
    small, large, few, many = await interleaved(
        lambda: growth.drain_cost(url, 20_000),
        lambda: growth.drain_cost(url, BACKLOG),
        lambda: growth.claim_cost_beside(url, 0),
        lambda: growth.claim_cost_beside(url, 200_000),
        times=2,
    )
    alive, dead = await growth.stalled_check_ms(url, 10_000)
    ours, theirs = await growth.memory_per_waiting_job(url, JOBS), await _node_memory(url)
    return Report(
        title="What must not grow",
        unit="measured",
        beside="beside",
        rows=[
            Row("µs a job: 1,000,000 waiting beside 20,000", large, small),
            Row("µs a job: 200,000 completed kept beside none", many, few),
            Row("stalled check of 10,000 active, ms, beside 100 ms", alive, 100),
            Row("the same when all of them have stalled", dead, 100),
            Row("bytes of a waiting job beside Node's", ours, theirs),
        ],
        remark="aim: within 1.15, 1.15, below 1, and memory within 1.05",
    )


async def _node_memory(url: str) -> float:
    async with await connect(url) as store:
        return await growth.bytes_each(store, lambda: measure("node_fill", url, jobs=JOBS), JOBS)
