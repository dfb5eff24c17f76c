"""Workers of both sides on one queue."""

import asyncio
from collections import Counter

from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire.node import NodePeer
from waystation.bullmq import Job, Queue, Worker
from waystation.core.store.connection import Store

MANY = 3000


async def test_each_of_thousands_of_jobs_is_run_once(
    any_node: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    ours: list[str] = []

    async def handle(job: Job) -> None:
        ours.append(job.id)
        await asyncio.sleep(0.002)

    remote = any_node.queue("q")
    theirs = await any_node.worker("q", {"*": [["runFor", 2]]}, concurrency=10).ready()
    async with Worker("q", handle, store, concurrency=10):
        for first in range(0, MANY, 600):
            await queue.add_many([("ours", n) for n in range(first, first + 300)])
            rows = [{"name": "theirs", "data": n} for n in range(first + 300, first + 600)]
            await remote.call("addBulk", rows)
        await remote.poll("getCompletedCount", gives=MANY, within=LIMIT_S)

    started = Counter([entry["jobId"] for entry in await theirs.journal(type="started")])
    runs = started + Counter(ours)
    assert len(runs) == MANY
    assert set(runs.values()) == {1}
    assert started
    assert ours
    assert await remote.call("getJobCounts", "active", "wait", "failed") == {
        "active": 0,
        "wait": 0,
        "failed": 0,
    }
    assert await redis.keys("bull:q:*:lock") == []


async def test_our_idle_worker_is_woken_by_a_node_producer(
    any_node: NodePeer, store: Store
) -> None:
    remote = any_node.queue("q")
    begun = asyncio.Event()

    async def handle(_: Job) -> None:
        begun.set()

    async with Worker("q", handle, store, poll=3600):
        await remote.call("add", "first", {})
        await asyncio.wait_for(begun.wait(), LIMIT_S)
        await remote.poll("getCompletedCount", gives=1)
        begun.clear()
        await remote.call("add", "soon", {}, {"delay": 30})
        await asyncio.wait_for(begun.wait(), LIMIT_S)
        await remote.poll("getCompletedCount", gives=2)


async def test_a_job_that_comes_while_a_worker_closes_is_run_by_those_who_stay(
    node6: NodePeer, queue: Queue, redis_url: str, redis: Redis
) -> None:
    """The one that leaves may have taken the marker of a job that it no longer takes."""
    await node6.worker("q", drainDelay=60).ready()
    for n in range(1, 21):
        worker = Worker("q", lambda job: job.data, redis_url, name="ours")
        await worker.start()
        await blocked(redis, "bull:cQ==:w:ours")
        await queue.add("work", n)
        await asyncio.sleep(n / 20_000)
        await worker.close()
        await node6.queue("q").poll("getCompletedCount", gives=n, within=LIMIT_S)


async def test_jobs_that_a_closed_worker_leaves_have_a_marker(
    queue: Queue, store: Store, redis: Redis
) -> None:
    async with Worker("q", lambda job: job.data, store) as worker:
        worker.pause()
        await queue.add("work")
        await redis.delete("bull:q:marker")

    assert await redis.zrange("bull:q:marker", 0, -1) == [b"0"]


async def blocked(redis: Redis, name: str) -> None:
    """Return when the client of this name waits at the marker."""
    async with asyncio.timeout(LIMIT_S):
        while not any(
            client["name"] == name and "b" in client["flags"]
            for client in await redis.client_list()
        ):
            await asyncio.sleep(0.001)
