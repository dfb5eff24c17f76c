"""Our side of the comparison, one process a task: drain, add, latency, memory.

`python -m benchmarks.bullmq.ours drain --url redis://localhost --concurrency 200` prints one line.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.bullmq.filling import PLAIN, fill
from benchmarks.peers.python.countdown import store_seconds
from waystation.bullmq import Job, Queue, Worker
from waystation.core.runtime.claim import Claim, Settled

WARM_UP = 50


class Countdown:
    """A listener that knows when so many jobs have been filed away, and later which ones.

    Whether one of them ran twice is looked at when the clock has stopped. A job that is lost keeps
    the clock from stopping, unless another ran twice.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.ids: list[str] = []
        self.over = asyncio.Event()

    @property
    def twice(self) -> int:
        """How many jobs have been filed away that had been before."""
        return len(self.ids) - len(set(self.ids))

    def settled(self, settled: list[Settled[Job]]) -> None:
        self.ids += [each.claim.id for each in settled]
        if len(self.ids) >= self.jobs:
            self.over.set()

    def claimed(self, claims: list[Claim[Job]]) -> None: ...
    def refused(self, refused: Any) -> None: ...
    def lost(self, claims: Any) -> None: ...
    def troubled(self, error: Any) -> None: ...


def _fresh_name() -> str:
    return f"bench-{os.getpid()}-{time.time_ns()}"


async def drain(
    url: str, *, jobs: int = 20_000, concurrency: int = 200, sleep_ms: int = 0
) -> dict[str, Any]:
    """Empty a full queue of jobs that do nothing, or sleep."""

    async def nothing(job: Job) -> None:
        return None

    async def sleep(job: Job) -> None:
        await asyncio.sleep(sleep_ms / 1000)

    async with Queue(_fresh_name(), url) as queue:
        await fill(queue, jobs)
        countdown = Countdown(jobs)
        handler = sleep if sleep_ms else nothing
        worker = Worker(queue.name, handler, url, concurrency=concurrency, listener=countdown)  # pyright: ignore[reportArgumentType]
        began, cpu, store = time.perf_counter(), time.process_time(), store_seconds(url)
        async with worker:
            await countdown.over.wait()
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
        store = store_seconds(url) - store
        await queue.obliterate(force=True)
    return {
        "perSecond": jobs / took,
        "twice": countdown.twice,
        "cpuMicrosPerJob": cpu / jobs * 1e6,
        "storeMicrosPerJob": store / jobs * 1e6,
    }


async def add(
    url: str, *, jobs: int = 20_000, singles: int = 2_000, inflight: int = 50, chunk: int = 500
) -> dict[str, Any]:
    """Add one after the other, many at once, and in bulk."""
    async with Queue(_fresh_name(), url) as queue:
        await fill(queue, 500)
        took: list[float] = []
        for n in range(singles):
            began = time.perf_counter()
            await queue.add("job", {"n": n}, PLAIN)
            took.append((time.perf_counter() - began) * 1000)
        numbers = iter(range(jobs))

        async def lane() -> None:
            for n in numbers:
                await queue.add("job", {"n": n}, PLAIN)

        together = await _seconds(lambda: asyncio.gather(*(lane() for _ in range(inflight))))
        rows = [("job", {"n": n}, PLAIN) for n in range(jobs)]
        bulk = await _seconds(lambda: queue.add_many(rows))
        await queue.obliterate(force=True)
    return {
        "aloneP50Ms": percentile(took, 0.5),
        "aloneP99Ms": percentile(took, 0.99),
        "togetherPerSecond": jobs / together,
        "bulkPerSecond": jobs / bulk,
    }


async def latency(
    url: str, *, jobs: int = 2_000, rate: int = 200, concurrency: int = 10
) -> dict[str, Any]:
    """Measure from the call that adds a job to the start of its handler, at a steady rate."""
    waits: list[float] = []
    over = asyncio.Event()

    async def handle(job: Job) -> None:
        if job.data["n"] >= WARM_UP:
            waits.append((time.perf_counter() - job.data["at"]) * 1000)
        if job.data["n"] == jobs + WARM_UP - 1:
            over.set()

    async with Queue(_fresh_name(), url) as queue:
        async with Worker(queue.name, handle, url, concurrency=concurrency):
            began = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for n in range(jobs + WARM_UP):
                    await asyncio.sleep(max(0.0, began + n / rate - time.perf_counter()))
                    at = time.perf_counter()
                    group.create_task(queue.add("job", {"n": n, "at": at}, PLAIN))
            await over.wait()
        await queue.obliterate(force=True)
    return {"p50Ms": percentile(waits, 0.5), "p99Ms": percentile(waits, 0.99)}


async def memory(url: str, *, jobs: int = 500_000, concurrency: int = 200) -> dict[str, Any]:
    """Resident megabytes of a worker after its first jobs, and after the last of very many."""
    sizes: list[float] = []

    async def nothing(job: Job) -> None:
        return None

    chunk = 10_000
    countdown = Countdown(chunk)
    async with Queue(_fresh_name(), url) as queue:
        worker = Worker(
            queue.name,
            nothing,
            url,
            concurrency=concurrency,
            listener=countdown,  # pyright: ignore[reportArgumentType]
            remove_on_complete=True,
        )
        async with worker:
            # With the first ones everything is loaded that will ever be.
            for _ in range(jobs // chunk + 1):
                countdown.ids.clear()
                countdown.over.clear()
                await fill(queue, chunk)
                await countdown.over.wait()
                sizes.append(_resident_mb())
        await queue.obliterate(force=True)
    return {"beganMb": sizes[0], "endedMb": sizes[-1], "mostMb": max(sizes), "jobs": jobs}


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGESIZE") / 2**20, 1)


async def _seconds(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def percentile(numbers: list[float], part: float) -> float:
    """The value below which this part of the numbers lies."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


TASKS: dict[str, Callable[..., Any]] = {
    "drain": drain,
    "add": add,
    "latency": latency,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--url", required=True)
    parser.add_argument("options", nargs="*", metavar="name=value")
    given = parser.parse_intermixed_args()
    options = {name: int(value) for name, _, value in (o.partition("=") for o in given.options)}
    figures = asyncio.run(TASKS[given.task](given.url, **options))
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
