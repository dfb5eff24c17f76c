"""What the worker itself costs: no-op jobs over a source in memory."""

import asyncio
import statistics
import time
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.report import Report, Row
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.testing.memory import MemorySource

JOBS = 100_000
BATCHES = (1, 10, 50, 100)
TIMES = 3


def run() -> Report:
    """Time a worker beside a bare loop over the same source."""
    rows = [
        Row(f"batches of {batch}", _micros_a_job(worker, batch), _micros_a_job(bare_loop, batch))
        for batch in BATCHES
    ]
    return Report(
        title=f"The worker: {JOBS:,} jobs that do nothing, in memory",
        unit="µs a job",
        beside="the source alone",
        rows=rows,
        remark="aim: below 8 µs a job in batches of 50",
    )


async def worker(source: MemorySource, batch: int) -> None:
    last = source.entries[str(JOBS)]
    worker = Worker(
        source,
        handler_of(_no_op),
        WorkerOptions(concurrency=2 * batch, batch_limit=batch),
    )
    running = asyncio.create_task(worker.run())
    while last.state != "completed":
        await asyncio.sleep(0.001)
    worker.stop()
    await running


async def bare_loop(source: MemorySource, batch: int) -> None:
    reply = await source.settle([], claim=batch)
    while reply.claims:
        reply = await source.settle([Settled(c, Done(None)) for c in reply.claims], claim=batch)


async def _no_op(work: object) -> None:
    return None


def _micros_a_job(
    subject: Callable[[MemorySource, int], Coroutine[Any, Any, None]], batch: int
) -> float:
    async def once() -> float:
        source = MemorySource()
        for number in range(JOBS):
            source.add(number)
        began = time.perf_counter()
        await subject(source, batch)
        return time.perf_counter() - began

    return statistics.median(asyncio.run(once()) for _ in range(TIMES)) / JOBS * 1e6
