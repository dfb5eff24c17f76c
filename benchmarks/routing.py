"""The routing line: what a claim costs behind a backlog, and how near a worker comes to the store.

Everything is a ratio of two figures of the same run.
"""

import asyncio
import time

from benchmarks.packed import Wire, packed
from benchmarks.report import Report, Row
from benchmarks.turns import interleaved
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect
from waystation.routing import Job, JobOptions, NewJob, Queue, Target
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.redis.scripts import settle
from waystation.routing.registry import Profile
from waystation.routing.results import KEPT_S, success
from waystation.routing.source import ClaimOptions, RoutingSource

JOBS = 10_000
CLAIMS = 200
WARM = 100
BATCH = 100
PICKY = JobOptions(target=Target(capabilities=("quantum",)))


def run() -> list[Report]:
    """Everything on one server, measured in turn."""
    with embedded.ephemeral() as server:
        return asyncio.run(_run(server.url))


async def _run(url: str) -> list[Report]:
    async with await connect(url) as store:
        return [await _claims(store), await _drain(store, url)]


async def _claims(store: Store) -> Report:
    subjects = {
        "no backlog": lambda: claim_cost(store, 0),
        "10,000 nobody can do in front": lambda: claim_cost(store, 10_000),
        "the same, all with other needs": lambda: claim_cost(store, 10_000, alike=False),
        "10,000 in front and 10,000 behind": lambda: claim_cost(store, 10_000, behind=10_000),
        "30,000 in front and 30,000 behind": lambda: claim_cost(store, 30_000, behind=30_000),
    }
    empty, *costs = await interleaved(*subjects.values())
    names = list(subjects)[1:]
    return Report(
        title="Claiming one job that a worker can do",
        unit="µs in the store",
        beside="no backlog",
        rows=[Row(name, cost, empty) for name, cost in zip(names, costs, strict=True)],
        remark="aim: at most 2 behind 10,000 jobs that nobody can do",
    )


async def _drain(store: Store, url: str) -> Report:
    async def ceiling() -> float:
        await _fill(store)
        rate = await asyncio.to_thread(ceiling_rate, url)
        # The calls that were packed beforehand must have been the right ones.
        assert (await Queue(store).counts("waiting")) == {"waiting": 0}
        assert await store.redis.exists("bridge:jobs:claims") == 0
        return rate

    ours, most = await interleaved(lambda: drain_rate(store), ceiling)
    return Report(
        title=f"Emptying a line of {JOBS:,} jobs that do nothing, one worker process",
        unit="jobs/s",
        beside="the store alone",
        rows=[Row("a worker with concurrency 200", ours, most)],
        remark="aim: 0.5 of what the same script does for a client that only sends",
    )


async def claim_cost(store: Store, in_front: int, *, behind: int = 0, alike: bool = True) -> float:
    """Microseconds that the store needs for one claim of one job."""
    # At once: freeing the last backlog in the background would be charged to this one.
    await store.redis.execute_command("FLUSHDB", "SYNC")
    queue = Queue(store)

    async def backlog(count: int) -> None:
        jobs = [
            NewJob("t", None, PICKY if alike else JobOptions(target=Target(server=f"s{number}")))
            for number in range(count)
        ]
        await queue.add_many(jobs)

    await backlog(in_front)
    await queue.add_many([NewJob("t")] * (CLAIMS + WARM))
    await backlog(behind)
    source = _source(store)
    # The first look holds every signature against the worker, once; the others warm up.
    for _ in range(WARM):
        await source.settle([], claim=1)
    await store.redis.config_resetstat()
    for _ in range(CLAIMS):
        assert (await source.settle([], claim=1)).claims
    # By the store's own clock: the way there and back costs the same whatever waits.
    spent = await store.redis.info("commandstats")
    await source.close()
    return float(spent["cmdstat_evalsha"]["usec_per_call"])


async def drain_rate(store: Store) -> float:
    """Jobs a second through a worker whose handler does nothing."""
    await _fill(store)
    source, done = _source(store), asyncio.Event()
    count = 0

    async def handle(job: Job) -> None:
        nonlocal count
        count += 1
        if count == JOBS:
            done.set()

    options = WorkerOptions(concurrency=2 * BATCH, batch_limit=BATCH)
    worker = Worker(source, handler_of(handle), options)
    began = time.perf_counter()
    running = asyncio.create_task(worker.run())
    await done.wait()
    worker.stop()
    await running
    took = time.perf_counter() - began
    await source.close()
    return JOBS / took


def ceiling_rate(url: str) -> float:
    """Jobs a second through the script alone, from a client that does nothing but send."""
    with Wire(url, settle) as wire:
        return JOBS / wire.send_all(_settling())


def _settling() -> list[bytes]:
    """The calls that empty the line; who gets what is known, because it is first in, first out."""
    keys, profile = RoutingKeys(), Profile(server="ceiling", capabilities=("cpu",)).matched()
    result, commands = success(None, 0, 0), list[bytes]()
    outcomes: list[str | bytes | int] = []
    for call, first in enumerate([*range(0, JOBS, BATCH), JOBS]):
        commands.append(
            packed(
                settle,
                keys,
                now="",
                token=f"token:{call}",
                lease_ms=30_000,
                want=BATCH if first < JOBS else 0,
                profile=profile,
                worker="ceiling",
                keep_s=KEPT_S,
                outcomes=outcomes,
            )
        )
        outcomes = []
        for number in range(first, min(first + BATCH, JOBS)):
            outcomes += ["completed", f"job-{number}", f"token:{call}", result, 1, 0]
    return commands


async def _fill(store: Store) -> None:
    await store.redis.execute_command("FLUSHDB", "SYNC")
    jobs = [NewJob("t", {"n": 1}, JobOptions(job_id=f"job-{n}")) for n in range(JOBS)]
    await Queue(store).add_many(jobs)


def _source(store: Store) -> RoutingSource:
    profile = Profile(server="bench", capabilities=("cpu",))
    return RoutingSource(store, RoutingKeys(), profile, ClaimOptions(announce=False))
