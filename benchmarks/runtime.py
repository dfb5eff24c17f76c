"""What the worker itself costs: no-op jobs over a source in memory."""

import asyncio
import statistics
import time

from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.memory import MemorySource
from waystation.core.runtime.worker import Worker, WorkerOptions

JOBS = 100_000


async def no_op(work: object) -> None:
    return None


async def drain(batch: int) -> float:
    source = MemorySource()
    for number in range(JOBS):
        source.add(number)
    worker = Worker(
        source,
        handler_of(no_op, concurrency=2 * batch),
        WorkerOptions(concurrency=2 * batch, batch_limit=batch),
    )
    last = source.entries[str(JOBS)]
    began = time.perf_counter()
    running = asyncio.create_task(worker.run())
    while last.state != "completed":
        await asyncio.sleep(0.001)
    took = time.perf_counter() - began
    worker.stop()
    await running
    return took


async def source_alone(batch: int) -> float:
    from waystation.core.outcome import Done
    from waystation.core.runtime.claim import Settled

    source = MemorySource()
    for number in range(JOBS):
        source.add(number)
    began = time.perf_counter()
    reply = await source.settle([], claim=batch)
    while reply.claims:
        reply = await source.settle([Settled(c, Done(None)) for c in reply.claims], claim=batch)
    return time.perf_counter() - began


def main() -> None:
    for batch in (1, 10, 50, 100):
        took = statistics.median(asyncio.run(drain(batch)) for _ in range(3))
        alone = statistics.median(asyncio.run(source_alone(batch)) for _ in range(3))
        print(
            f"batch {batch:>3}: {took / JOBS * 1e6:6.2f} µs a job, source alone {alone / JOBS * 1e6:.2f}"
        )


if __name__ == "__main__":
    main()
