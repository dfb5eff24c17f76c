"""BullMQ 5 beside us: it keeps a paused queue's jobs elsewhere, and writes a little else."""

import asyncio

import pytest
from redis.asyncio import Redis

from waystation.core.store.connection import Store
from waystation.queues.bullmq import Queue, Worker

from .node import NodePeer
from .steps import Steps

HOUR = 3_600_000


async def test_nothing_is_lost_when_bullmq_5_pauses_and_resumes_under_load(
    node5: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    remote = node5.queue("q")
    async with Worker("q", Steps(store), store, concurrency=5):
        for round in range(10):
            await queue.add_many([("before", n) for n in range(20)])
            await remote.call("pause")
            await queue.add_many([("during", n) for n in range(20)])
            await queue.add("urgent", round, priority=1)
            await queue.add("soon", round, delay=1)
            await asyncio.sleep(0.005)
            await remote.call("resume")
        await remote.poll("getCompletedCount", gives=10 * 42)

    assert await redis.exists("bull:q:wait", "bull:q:paused", "bull:q:active") == 0


async def test_a_job_that_fails_while_bullmq_5_has_paused_is_kept(
    node5: NodePeer, queue: Queue, store: Store
) -> None:
    remote = node5.queue("q")
    await queue.add("waiting")
    job = await queue.add(
        "retried",
        {"do": [["runFor", 100], ["throw", "no", 1]]},
        attempts=2,
        backoff=None,
        lifo=True,
    )
    async with Worker("q", Steps(store), store) as ours:
        await remote.poll("getJobState", job.id, gives="active")
        await remote.call("pause")
        await remote.poll("getJob", job.id, gives={"attemptsMade": 1})
        ours.pause()
        await remote.call("resume")

    theirs = node5.worker("q")
    await theirs.until("completed", count=2)


@pytest.mark.parametrize("by", ["pause in 5", "pause in ours"])
async def test_either_generation_may_resume(
    by: str, node5: NodePeer, node6: NodePeer, queue: Queue, store: Store
) -> None:
    five, six = node5.queue("q"), node6.queue("q")
    await queue.add("first")
    await (five.call("pause") if by == "pause in 5" else queue.pause())
    await five.call("add", "second", {})
    await queue.add("third")
    await six.call("resume")

    async with Worker("q", Steps(store), store):
        await six.poll("getCompletedCount", gives=3)


async def test_we_work_on_what_bullmq_5_repeats(node5: NodePeer, store: Store) -> None:
    remote = node5.queue("q")
    await remote.call("upsertJobScheduler", "s", {"every": HOUR}, {"name": "tick"})
    async with Worker("q", Steps(store), store):
        await remote.poll("getCompletedCount", gives=1)

    scheduler = await remote.call("getJobScheduler", "s")
    assert scheduler["iterationCount"] == 2
    assert await remote.call("getDelayedCount") == 1


async def test_a_listener_of_bullmq_5_hears_what_we_turn_away(
    node5: NodePeer, queue: Queue
) -> None:
    events = node5.events("q")
    await queue.add("work", 1, job_id="a")
    await queue.add("work", 2, job_id="a")

    assert (await events.until("duplicated"))[0]["jobId"] == "a"
