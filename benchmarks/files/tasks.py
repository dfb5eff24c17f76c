"""One measurement, one process: `python -m benchmarks.files.tasks drain --url redis://…`."""

import argparse
import asyncio
import contextlib
import os
import resource
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec

from waystation import bullmq
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.core.runtime.metered import Metered
from waystation.core.store.connection import Store, connect
from waystation.core.telemetry.metrics import Metrics
from waystation.files import Handlers, Job, Layout, Producer, Queue, WorkerOptions
from waystation.files import Worker as FileWorker
from waystation.files.claims import FileSource
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile, ScanOptions, Walk
from waystation.files.producer import ProducerOptions

BATCH = 100


async def scan(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """Walk a tree, put it in line, and walk it again when everything is known."""
    wanted = ScanOptions(scan_dir=options.root, settle=0)
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


async def arrive(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """The milliseconds of processor time that a watching producer takes for one new file."""
    async with _watching(store, options.root, rescan=3600) as producer:
        there, new, times = producer.tally.enqueued, 20, time.process_time()
        root: str = options.root
        folder = os.listdir(root)[0]
        for number in range(1, new + 1):
            file = f"{root}/{folder}/new-{time.time_ns()}"
            os.close(os.open(file, os.O_CREAT))
            while producer.tally.enqueued < there + number:
                await asyncio.sleep(0.05)
            os.unlink(file)
        return {"result": (time.process_time() - times) / new * 1000}


async def rescan(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """The same for one pass over a directory in which nothing has changed."""
    async with _watching(store, options.root, rescan=0.5) as producer:
        there = producer.tally.enqueued

        async def passes(count: int) -> float:
            found, began = producer.tally.found, time.process_time()
            while producer.tally.found < found + count * there:
                await asyncio.sleep(0.05)
            return (time.process_time() - began) * there / (producer.tally.found - found)

        await passes(1)
        return {"result": await passes(3) * 1000}


async def ask(store: Store, options: argparse.Namespace) -> dict[str, float]:
    """The same for a scan, which asks the store for each file."""
    queue, wanted = Queue(store, layout=_layout()), _wanted(options.root)
    await Producer(queue, wanted).scan()
    began = time.process_time()
    await Producer(queue, wanted).scan()
    return {"result": (time.process_time() - began) * 1000}


@contextlib.asynccontextmanager
async def _watching(store: Store, root: str, rescan: float) -> AsyncGenerator[Producer]:
    """A producer that watches a directory, after its first look."""
    producer = Producer(Queue(store, layout=_layout()), _wanted(root, rescan))
    count = sum(len(files) for _, _, files in os.walk(root))
    watching = asyncio.create_task(producer.watch())
    while producer.tally.enqueued < count:
        await asyncio.sleep(0.05)
    yield producer
    watching.cancel()
    await asyncio.wait([watching])


def _wanted(root: str, rescan: float = 30.0) -> ProducerOptions:
    return ProducerOptions(scan=ScanOptions(scan_dir=root, settle=0), rescan=rescan)


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

    worker_options = WorkerOptions(concurrency=options.concurrency)
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

    listener = Metered(Metrics(), product="bullmq", queue=name)
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
    # Where there is one, the kernel's own record: getrusage's includes the parent's peak.
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _busy_us(store: Store) -> float:
    stats: Any = await store.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "eval"))


def _layout() -> Layout:
    return Layout(prefix=f"bench-{time.time_ns()}")


async def _fill(queue: Queue, jobs: int) -> None:
    for first in range(0, jobs, 1000):
        rows = [
            entry(queue.keys, ScannedFile(f"/inbox/{n}.txt", n, n), priority="low", now_ns=n)
            for n in range(first, min(first + 1000, jobs))
        ]
        await queue.intake.put(rows)


TASKS = {
    "scan": scan, "arrive": arrive, "rescan": rescan, "ask": ask,
    "drain": drain, "bullmq": bullmq_drain, "fetch": fetch,
}  # fmt: skip


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
