"""Limits that one side sets bind the workers of both."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire.node import NodePeer
from tests.wire.steps import Steps, one_start
from waystation.bullmq import Job, Limit, Queue, Worker
from waystation.core.store.connection import Store


async def test_workers_of_both_sides_share_the_global_concurrency(
    any_node: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    remote = any_node.queue("q")
    await remote.call("setGlobalConcurrency", 2)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, await redis.llen("bull:q:active"))
            await asyncio.sleep(0.001)

    watching = asyncio.create_task(watch())
    await any_node.worker("q", concurrency=5).ready()
    async with Worker("q", Steps(store), store, concurrency=5):
        await queue.add_many([("work", {"do": [["runFor", 10]]}) for _ in range(40)])
        await remote.poll("getCompletedCount", gives=40)
    watching.cancel()

    assert 0 < most <= 2


async def test_workers_of_both_sides_share_the_rate_limit(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    await queue.limits.set_rate_limit(5, 0.2)
    await queue.add_many([("work", n) for n in range(15)])

    async with Worker("q", Steps(store), store, concurrency=5):
        any_node.worker("q", concurrency=5)
        await remote.poll("getCompletedCount", gives=15)

    starts = sorted(job.started_ms or 0 for job in await queue.get_jobs("completed"))
    # Five start in a window, and the sixth opens the next one.
    assert starts[5] - starts[0] >= 195
    assert starts[10] - starts[5] >= 195


async def test_our_worker_waits_as_long_as_a_node_limit_lasts_and_no_longer(
    node6: NodePeer, store: Store
) -> None:
    remote = node6.queue("q")
    theirs = node6.worker("q", limiter={"max": 1, "duration": 400})
    await remote.call("add", "theirs", {})
    await theirs.until("completed")
    await theirs.close()
    await remote.call("add", "ours", {})

    # Nothing else would wake the worker.
    async with Worker("q", Steps(store), store, limiter=Limit(1, 0.4), poll=3600):
        await remote.poll("getCompletedCount", gives=2)

    first, second = [await remote.call("getJob", id) for id in ("1", "2")]
    assert second["processedOn"] - first["processedOn"] >= 380


async def test_our_rate_limit_error_holds_node_back_too(node6: NodePeer, store: Store) -> None:
    remote = node6.queue("q")
    limit = {"max": 100, "duration": 1000}
    await remote.call("add", "limited", {"do": [["rateLimit", 3000], ["return", 1]]})
    async with one_start(store, limiter=Limit(**limit)):
        await remote.poll("getJob", "1", gives={"attemptsStarted": 1})
        await remote.poll("getJobState", "1", gives="waiting")
        assert 0 < await remote.call("getRateLimitTtl", 100) <= 3000
        theirs = node6.worker("q", limiter=limit)
        [started] = await theirs.until("started")
        assert await remote.call("getRateLimitTtl", 100) == 0

    assert (started["attemptsMade"], started["attemptsStarted"]) == (0, 2)


async def test_a_slot_that_our_closing_worker_frees_is_taken_by_node(
    node6: NodePeer, queue: Queue, store: Store
) -> None:
    await queue.limits.set_concurrency(1)
    held, go_on = asyncio.Event(), asyncio.Event()

    async def handle(_: Job) -> None:
        held.set()
        await go_on.wait()

    async with Worker("q", handle, store):
        await queue.add("ours")
        await held.wait()
        theirs = await node6.worker("q").ready()
        await queue.add("theirs")
        go_on.set()
    await theirs.until("completed", within=LIMIT_S)


@pytest.mark.parametrize("limited", ["worker", "queue", "hand", "hand alone"])
async def test_a_limit_below_the_concurrency_is_worked_off_window_by_window_as_by_node(
    node6: NodePeer, queue: Queue, store: Store, limited: str
) -> None:
    window, groups, size = 100, 6, 5
    jobs: list[tuple[str, Any]] = [("work", {}) for _ in range(groups * size)]
    shortest = (groups - 1) * window * 0.9
    limiter: dict[str, int] | None = {"max": size, "duration": window}
    if limited == "queue":
        limiter = None
        await queue.limits.set_rate_limit(size, window / 1000)
    elif limited.startswith("hand"):
        # One of each group asks for a pause of the whole queue, and runs again after it.
        shortest = 0
        limiter = None if limited == "hand alone" else {"max": 1000, "duration": 1}
        jobs[::size] = [("pause", {"do": [["rateLimit", window]]})] * groups

    async def work_off(ours: bool) -> None:
        await queue.add_many(jobs)
        if ours:
            chosen = Limit(limiter["max"], limiter["duration"] / 1000) if limiter else None
            # Whoever sleeps through the end of a window sleeps for longer than the test waits.
            worker = Worker("q", Steps(store), store, concurrency=10, limiter=chosen, poll=3600)
            async with worker:
                await all_done()
        else:
            options: dict[str, Any] = {"limiter": limiter} if limiter else {}
            theirs = node6.worker("q", concurrency=10, **options)
            await all_done()
            await theirs.close()
        starts = sorted(job.started_ms or 0 for job in await queue.get_jobs("completed"))
        assert starts[-1] - starts[0] >= shortest
        await queue.clean(0, 1000, "completed")

    async def all_done() -> None:
        await node6.queue("q").poll("getCompletedCount", gives=len(jobs), within=LIMIT_S)

    await work_off(ours=False)
    await work_off(ours=True)
