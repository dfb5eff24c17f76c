"""One side is killed in the middle of its work; the other one does it."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any

from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire import lasting_worker
from tests.wire.conftest import LATEST
from tests.wire.node import NodePeer, node
from waystation.bullmq import Job, Queue, Worker
from waystation.core.store.connection import Store

CHECK_MS = 100
BRIEF: dict[str, Any] = {"lockDuration": 400, "stalledInterval": CHECK_MS}


async def kill_our_worker_with(jobs: int, url: str) -> list[str]:
    """Let a worker of ours take jobs, and kill its process; the ids it held."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", lasting_worker.__name__, url, "q", stdout=PIPE
    )
    assert process.stdout
    try:
        async with asyncio.timeout(LIMIT_S):
            return [(await process.stdout.readline()).decode().strip() for _ in range(jobs)]
    finally:
        process.kill()
        await process.wait()


async def test_node_rescues_the_jobs_of_our_killed_worker(
    any_node: NodePeer, queue: Queue, redis_url: str, redis: Redis
) -> None:
    await queue.add_many([("work", 1), ("work", 2)])
    held = await kill_our_worker_with(2, redis_url)
    assert await redis.llen("bull:q:active") == 2

    worker = any_node.worker("q", stalledInterval=CHECK_MS)
    completed = await worker.until("completed", count=2)

    assert {entry["jobId"] for entry in completed} == set(held)
    assert {entry["jobId"] for entry in await worker.journal(type="stalled")} == set(held)
    job = await any_node.queue("q").call("getJob", held[0])
    assert (job["stalledCounter"], job["attemptsMade"], job["attemptsStarted"]) == (1, 1, 2)


async def test_we_rescue_the_jobs_of_a_killed_node_worker(
    queue: Queue, store: Store, redis_url: str
) -> None:
    first, second = await queue.add_many([("work", 1), ("work", 2)])
    async with node(LATEST, redis_url) as peer:
        worker = peer.worker("q", {"*": [["never"]]}, concurrency=2, **BRIEF)
        await worker.until("started", count=2)
        await peer.kill()

    async with Worker("q", lambda job: job.data, store, stalled_interval=CHECK_MS / 1000):
        assert await first.wait(timeout=60) == 1
        assert await second.wait(timeout=60) == 2

    await first.refresh()
    assert (first.stalled_count, first.attempts_made, first.attempts_started) == (1, 1, 2)


async def test_a_job_that_stalls_on_both_sides_fails_with_nodes_reason(
    node6: NodePeer, queue: Queue, redis_url: str
) -> None:
    job = await queue.add("poison", attempts=5)
    await kill_our_worker_with(1, redis_url)
    async with node(LATEST, redis_url) as peer:
        worker = peer.worker("q", {"*": [["never"]]}, **BRIEF)
        await worker.until("started")
        await peer.kill()

    runs: list[str] = []

    def handle(job: Job) -> None:
        runs.append(job.id)

    async with Worker("q", handle, redis_url, stalled_interval=CHECK_MS / 1000):
        await node6.queue("q").poll("getJobState", job.id, gives="failed")

    assert runs == []
    found = await node6.queue("q").call("getJob", job.id)
    assert found["failedReason"] == "job stalled more than allowable limit"


async def test_a_result_that_comes_after_the_rescue_is_refused(
    node6: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    job = await queue.add("slow", job_id="slow")
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(_: Job) -> str:
        begun.set()
        # As a handler that blocks its process: it learns nothing until it is done.
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async with Worker("q", handle, store, lease=60, stalled_interval=CHECK_MS / 1000) as ours:
        refused = asyncio.Event()
        ours.on("refused", lambda job, error: refused.set())
        await begun.wait()
        await redis.delete("bull:q:slow:lock")
        worker = node6.worker("q", {"*": [["return", "rescued"]]}, stalledInterval=CHECK_MS)
        await worker.until("completed", jobId="slow")
        go_on.set()
        await asyncio.wait_for(refused.wait(), LIMIT_S)

    assert await job.wait(timeout=60) == "rescued"
