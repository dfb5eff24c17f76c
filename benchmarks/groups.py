"""Groups: what taking turns costs the store, and that a million groups cost what ten do."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.bullmq.settling import settle
from benchmarks.report import Report, Row
from benchmarks.turns import interleaved
from waystation.bullmq import Group, JobOptions, NewJob, Queue
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.store import embedded
from waystation.core.store.connection import Store, StoreOptions, connect

JOBS = int(os.environ.get("GROUP_JOBS", "10000"))
GROUPS = int(os.environ.get("GROUPS", "1000000"))
FEW = 10
PATIENT = StoreOptions(call_timeout=120)
"""A million groups are forgotten in one call."""


def run() -> Report:
    """Everything in one interleaved run on one server."""
    with embedded.ephemeral() as server:
        return asyncio.run(_run(server.url))


async def _run(url: str) -> Report:
    def cost(groups: int, batch: int, most: int = JOBS) -> Callable[[], Awaitable[float]]:
        return lambda: _cost_of_a_job(url, groups, batch, most)

    plain, grouped, one, one_grouped, few, many = await interleaved(
        cost(0, 100), cost(FEW, 100), cost(0, 1), cost(FEW, 1), cost(FEW, 100), cost(GROUPS, 100)
    )
    return Report(
        title="What the store does for a job of a group, to claim and complete it",
        unit="µs a job",
        beside="beside",
        rows=[
            Row(f"{FEW} groups beside none, a hundred at a time", grouped, plain),
            Row(f"{FEW} groups beside none, one at a time", one_grouped, one),
            Row(f"{GROUPS:,} groups beside {FEW}, a hundred at a time", many, few),
        ],
        remark="aim: within 1.1, 1.1 and 1.3",
    )


async def _cost_of_a_job(url: str, groups: int, batch: int, most: int) -> float:
    """Processor time of the store, in microseconds, for each of so many jobs."""
    jobs = most if batch > 1 else most // 5
    async with (
        await connect(url, PATIENT) as store,
        Queue(f"groups-{time.time_ns()}", store) as queue,
    ):
        for rows in _filling(groups, max(jobs, groups)):
            await queue.add_many(rows)
        keys, held = QueueKeys(queue.name), list[str]()
        began = await _processor_time(store)
        for _ in range(jobs // batch):
            held = await settle(store, keys, held, batch)
            assert len(held) == batch
        took = await _processor_time(store) - began
        # Valkey would free the memory later, in the middle of what is measured next.
        await store.redis.execute_command("FLUSHDB", "SYNC")
    return took / jobs * 1e6


def _filling(groups: int, jobs: int) -> Iterator[list[NewJob]]:
    plain = JobOptions(attempts=1)
    for first in range(0, jobs, 1000):
        yield [
            NewJob(
                "job",
                {"n": n},
                JobOptions(attempts=1, group=Group(f"group-{n % groups}")) if groups else plain,
            )
            for n in range(first, min(first + 1000, jobs))
        ]


async def _processor_time(store: Store) -> float:
    known = await store.redis.info("cpu")
    return known["used_cpu_user"] + known["used_cpu_sys"]
