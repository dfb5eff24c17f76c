"""Cancelling a job from anywhere: one that waits fails, and one that runs is stopped."""

import asyncio
import time
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.bullmq.trees import child, parent
from tests.support.lossy import make_lossy
from tests.support.patience import LIMIT_S
from waystation.bullmq import Deduplication, FlowProducer, Job, Queue, Schedule, SyncJob, Worker
from waystation.core.errors import JobFailed, LeaseLost, StoreUnreachable, WrongState
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled

QUICK: Any = {"lease": 60, "renew": 0.02}
"""A worker that looks after its locks often; they never run out."""


@pytest.mark.parametrize("wish", [{}, {"delay": 1000}, {"priority": 3}], ids=str)
async def test_a_job_that_waits_fails(harness: Harness, queue: Queue, wish: dict[str, Any]) -> None:
    id = await harness.add(**wish)
    assert await queue.cancel(id, reason="not needed any more") == 1

    job = await queue.get_job(id)
    assert job is not None
    assert await harness.where(id) == ["failed"]
    assert job.failed_reason == "not needed any more"
    assert job.attempts_made == 0
    assert job.finished_at is not None
    assert await harness.claim() == []
    with pytest.raises(JobFailed, match="not needed any more"):
        await queue.wait(id, timeout=LIMIT_S)


async def test_only_what_has_not_ended_is_counted(harness: Harness, queue: Queue) -> None:
    ids = [await harness.add() for _ in range(3)]
    await harness.complete(await harness.claim_one())
    assert await queue.cancel(*ids, "never there") == 2
    assert await queue.cancel(*ids) == 0
    assert await queue.counts("completed", "failed") == {"completed": 1, "failed": 2}


async def test_a_running_handler_is_stopped(redis_url: str) -> None:
    running, stopped = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    async with (
        asyncio.timeout(LIMIT_S),
        Queue("mail", redis_url) as queue,
        Worker("mail", handle, redis_url, **QUICK),
    ):
        job = await queue.add("send", attempts=5)
        await running.wait()
        assert await job.cancel()
        assert await queue.state(job.id) == "failed"
        await stopped.wait()
        assert await queue.count() == 0
        assert await queue.counts("active", "failed") == {"active": 0, "failed": 1}


async def test_a_plain_function_sees_that_it_was_cancelled(redis_url: str) -> None:
    running, stopped = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(job: SyncJob) -> None:
        loop.call_soon_threadsafe(running.set)
        while not job.cancelled:
            time.sleep(0.01)
        loop.call_soon_threadsafe(stopped.set)

    async with (
        asyncio.timeout(LIMIT_S),
        Queue("mail", redis_url) as queue,
        Worker("mail", handle, redis_url, **QUICK),
    ):
        job = await queue.add("send")
        await running.wait()
        assert await queue.cancel(job.id) == 1
        await stopped.wait()


async def test_what_its_worker_says_afterwards_does_not_count(
    harness: Harness, queue: Queue
) -> None:
    id = await harness.add()
    held = await harness.claim_one()
    assert await queue.cancel(id) == 1
    assert isinstance(await harness.complete(held, "too late"), LeaseLost)
    assert [claim.id for claim in await harness.extend(held)] == [id]
    assert (await harness.hash(id)).get("returnvalue") is None
    assert [event["prev"] for event in await harness.events("failed")] == ["active"]


@pytest.mark.parametrize("is_removed", [False, True])
async def test_a_lost_answer_does_not_hide_it(
    harness: Harness, queue: Queue, is_removed: bool
) -> None:
    id = await harness.add(remove_on_fail=is_removed)
    held = await harness.claim_one()
    source = harness.worker
    lossy = make_lossy(source)
    assert await queue.cancel(id) == 1
    lossy.lose_next()
    outcome = Settled(held, Done("too late"))
    with pytest.raises(StoreUnreachable):
        await source.settle([outcome], claim=0)
    reply = await source.settle([outcome], claim=0)
    assert not reply.settled
    assert [type(refused.reason) for refused in reply.refused] == [LeaseLost]


async def test_it_can_be_tried_again(harness: Harness, queue: Queue) -> None:
    id = await harness.add()
    await queue.cancel(id)
    assert await queue.retry(id) == 1
    assert await harness.complete(await harness.claim_one()) is None
    assert await harness.where(id) == ["completed"]


async def test_its_deduplication_is_free_again(harness: Harness, queue: Queue) -> None:
    one = Deduplication("one")
    id = await harness.add(deduplication=one)
    await queue.cancel(id)
    assert await harness.add(deduplication=one) != id


async def test_one_that_is_not_kept_is_gone(harness: Harness, queue: Queue) -> None:
    id = await harness.add(remove_on_fail=True)
    assert await queue.cancel(id) == 1
    assert await queue.get_job(id) is None
    assert await queue.state(id) == "unknown"


async def test_the_next_job_of_a_scheduler_keeps_it_going(harness: Harness, queue: Queue) -> None:
    await queue.schedulers.upsert("often", Schedule(every=60))
    (job,) = await queue.get_jobs()
    with pytest.raises(WrongState, match="remove the scheduler instead"):
        await queue.cancel(job.id)


async def test_a_child_that_is_cancelled_has_failed(
    harness: Harness, queue: Queue, flows: FlowProducer
) -> None:
    await flows.add(parent(child(job_id="down", fail_parent_on_failure=True)))
    await queue.cancel("down", reason="not needed")
    held = await harness.claim_one()
    assert held.id == "parent"
    assert held.work.deferred_failure == "child bull:mail:down failed"


async def test_a_freed_place_lets_another_start(harness: Harness, queue: Queue) -> None:
    await queue.limits.set_concurrency(1)
    first, second = [await harness.add() for _ in range(2)]
    await harness.claim_one()
    assert await harness.claim() == []
    await harness.redis.delete(harness.keys.marker)
    await queue.cancel(first)
    assert await harness.redis.zscore(harness.keys.marker, "0") == 0
    assert (await harness.claim_one()).id == second
