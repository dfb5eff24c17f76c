"""Cancelling jobs that run: their handlers stop at once, and limits hold meanwhile."""

import asyncio
import random
from collections import Counter

import pytest

from tests.routing.harness import LEASE_MS, Harness
from tests.routing.test_worker import QUICK, until
from waystation.core.errors import Cancelled
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.routing import BackoffRule, Job, Limit, Queue, Retry, Worker

FOR_EVER = 3_600.0


async def test_a_cancelled_job_stops_long_before_its_lease_is_renewed(harness: Harness) -> None:
    queue, ends = Queue(harness.store), list[str]()

    async def handle(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(job.id)

    async with Worker(handle, harness.store, concurrency=2, lease=FOR_EVER, scheduler=None):
        jobs = [(await queue.add("t")).id for _ in range(2)]
        for expected in jobs:

            async def runs() -> bool:
                return (await queue.counts("active"))["active"] == len(jobs) - len(ends)

            await until(runs)
            await queue.cancel(expected)

            async def stopped(expected: str = expected) -> bool:
                return expected in ends

            await until(stopped)
    assert ends == jobs


async def test_the_place_of_a_cancelled_job_is_free_when_its_handler_has_ended(
    harness: Harness,
) -> None:
    await harness.queue.limits.set("t", Limit(max_concurrent=1))
    first, second = await harness.add("t"), await harness.add("t")
    source = harness.source()
    (claim,) = await harness.claim(source)

    assert await harness.queue.cancel(first) == 1
    assert await (await harness.upkeep()).reconcile() == []
    assert await harness.claim(source) == []
    reply = await source.settle([Settled(claim, Done())], claim=1)

    (refused,) = reply.refused
    assert isinstance(refused.reason, Cancelled)
    assert [each.id for each in reply.claims] == [second]
    assert await harness.redis.exists(harness.keys.stopping) == 0


async def test_the_place_of_a_cancelled_job_is_free_when_its_lease_is_over(
    harness: Harness,
) -> None:
    await harness.queue.limits.set("t", Limit(max_concurrent=1))
    first, second = await harness.add("t"), await harness.add("t")
    source = harness.source()
    (claim,) = await harness.claim(source)
    await harness.queue.cancel(first)
    async with source.keeper() as extend:
        # Cancelled once more, then given up: a handler that is still cleaning up keeps its place.
        assert await extend([claim]) == []
        await harness.clock.advance(LEASE_MS / 2000)
        assert await extend([claim]) == [claim]
    await harness.clock.advance(LEASE_MS / 2000 + 1)
    assert await (await harness.upkeep()).recover() == []
    assert await harness.claim(source) == []

    assert await harness.lapse() == []
    assert await harness.claim_ids(source) == [second]


@pytest.mark.parametrize("seed", range(2))
async def test_no_more_handlers_run_at_once_than_a_limit_allows(
    harness: Harness, seed: int
) -> None:
    """Whatever is cancelled, retried and paused meanwhile."""
    dice, queue, most = random.Random(seed), Queue(harness.store), 3
    running: Counter[str] = Counter()
    seen = list[int]()

    async def handle(job: Job) -> None:
        running[job.type] += 1
        seen.append(running[job.type])
        try:
            await asyncio.sleep(dice.random() / 50)
            if dice.random() < 0.3:
                raise RuntimeError("once more")
        finally:
            # Cleaning up takes its time, and is a part of running.
            try:
                await asyncio.sleep(dice.random() / 50)
            finally:
                running[job.type] -= 1

    await queue.limits.set("t", Limit(max_concurrent=most))
    retry = Retry(attempts=3, backoff=BackoffRule(delay=0))
    ids = [(await queue.add("t", retry=retry)).id for _ in range(60)]
    async with (
        Worker(handle, harness.store, concurrency=5, scheduler=QUICK),
        Worker(handle, harness.store, concurrency=5, scheduler=None),
    ):

        async def is_over() -> bool:
            counts = await queue.counts("waiting", "active", "delayed")
            return not sum(counts.values())

        for id in dice.sample(ids, 30):
            await queue.cancel(id, dice.choice(ids))
            if dice.random() < 0.2:
                await queue.pause("t")
                await queue.resume("t")
            await asyncio.sleep(0.005)
        await until(is_over)
    assert max(seen) <= most
    assert (
        await harness.redis.exists(harness.keys.of_type("t").concurrent, harness.keys.stopping) == 0
    )
    await harness.redis.flushdb()
