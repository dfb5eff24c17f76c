"""One measurement, one process: `python -m benchmarks.files.tasks drain --url redis://…`."""

import argparse
import asyncio
import resource
import time
from pathlib import Path
from typing import Any

import msgspec

from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.core.runtime.metered import Metered
from waystation.core.store.connection import Store, connect
from waystation.core.telemetry.metrics import Metrics
from waystation.queues import bullmq
from waystation.queues.files import FileWorkerOptions, Handlers, Job, Layout, Producer, Queue
from waystation.queues.files import Worker as FileWorker
from waystation.queues.files.claims import FileSource
from waystation.queues.files.intake import entry
from waystation.queues.files.producer import ProducerOptions
from waystation.queues.files.scan import Found, ScanOptions, Walk

BATCH = 100


async def scan(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """Walk a tree, put it in line, and walk it again when everything is known."""
    wanted = ScanOptions(scan_dir=options.root, settle_s=0)
    began = time.perf_counter()
    count = sum(1 for _ in Walk(wanted))
    walked = count / (time.perf_counter() - began)
    queue = Queue(store, layout=_layout())

    async def rate() -> float:
        began = time.perf_counter()
        await Producer(queue, ProducerOptions(scan=wanted)).scan()
        return count / (time.perf_counter() - began)

    new, known = await rate(), await rate()
    return {
        "walked": walked, "newPerSecond": new, "knownPerSecond": known, "peakMb": _peak_mb(),
    }  # fmt: skip


async def drain(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """Work off jobs that do nothing."""
    layout, done = _layout(), asyncio.Event()
    await _fill(Queue(store, layout=layout), options.jobs)
    handlers, count = Handlers(), 0

    @handlers.handler("**/*")
    async def nothing(job: Job) -> None:
        nonlocal count
        count += 1
        if count == options.jobs:
            done.set()

    worker_options = FileWorkerOptions(count=options.concurrency)
    async with FileWorker(handlers, store, layout=layout, options=worker_options):
        began = time.perf_counter()
        await done.wait()
    # Leaving waits for the last outcomes, so that both sides end with everything filed away.
    return {"result": options.jobs / (time.perf_counter() - began)}


async def bullmq_drain(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """The same over a BullMQ queue; both count what they do, as the processes that people run."""
    name, count, done = f"beside-{time.time_ns()}", 0, asyncio.Event()
    async with bullmq.Queue(name, store) as queue:
        for first in range(0, options.jobs, 1000):
            last = min(first + 1000, options.jobs)
            await queue.add_many([("file", {"filepath": f"/{n}"}) for n in range(first, last)])

    async def nothing(job: Any) -> None:
        nonlocal count
        count += 1
        if count == options.jobs:
            done.set()

    listener = Metered(Metrics(), line="bullmq", queue=name)
    async with bullmq.Worker(
        name, nothing, store, concurrency=options.concurrency, listener=listener
    ):
        began = time.perf_counter()
        await done.wait()
    return {"result": options.jobs / (time.perf_counter() - began)}


async def fetch(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """The server's own microseconds a job to fetch and complete the oldest of so many."""
    queue = Queue(store, layout=_layout())
    await _fill(queue, options.jobs)
    source = FileSource(store, queue.keys)
    claims = (await source.settle([], claim=BATCH)).claims
    before, calls = await _busy_us(store), 40
    for _ in range(calls):
        settled = [Settled(claim, Done()) for claim in claims]
        claims = (await source.settle(settled, claim=BATCH)).claims
    after = await _busy_us(store)
    await source.close()
    return {"result": (after - before) / calls / BATCH}


def _peak_mb() -> float:
    # Where there is one, the kernel's own record: what getrusage tells includes the parent's peak.
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _busy_us(store: Store) -> float:
    stats: Any = await store.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "eval"))


def _layout() -> Layout:
    return Layout(namespace=f"bench-{time.time_ns()}")


async def _fill(queue: Queue, jobs: int) -> None:
    for first in range(0, jobs, 1000):
        rows = [
            entry(queue.keys, Found(f"/inbox/{n}.txt", n, n), priority="low", now_ns=n)
            for n in range(first, min(first + 1000, jobs))
        ]
        await queue.intake.put(rows)


TASKS = {"scan": scan, "drain": drain, "bullmq": bullmq_drain, "fetch": fetch}


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--root", default="")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=200)
    options = parser.parse_args()
    async with await connect(options.url) as store:
        result = await TASKS[options.task](store, options)
        await store.redis.flushdb()
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    asyncio.run(main())
