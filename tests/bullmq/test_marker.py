"""The marker wakes one worker; one that will not work wakes another in its place."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from redis.asyncio import Redis

from tests.support.listening import blocked_on
from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, Worker

LONG = 3_600_000


@pytest.mark.parametrize("leaving", ["paused", "closed"])
@pytest.mark.parametrize("delay", [0, 300])
async def test_a_worker_that_leaves_keeps_no_job_from_the_others(
    redis: Redis, redis_url: str, leaving: str, delay: int
) -> None:
    done = asyncio.Event()

    async def never(job: Job) -> None:
        raise AssertionError

    async def work(job: Job) -> None:
        done.set()

    async with AsyncExitStack() as opened, asyncio.timeout(LIMIT_S):
        queue = await opened.enter_async_context(Queue("mail", redis_url))
        first = await opened.enter_async_context(Worker("mail", never, redis_url, poll=LONG / 1000))
        await blocked_on(redis, 1)
        first.pause()
        await opened.enter_async_context(Worker("mail", work, redis_url, poll=LONG / 1000))
        await blocked_on(redis, 2)
        await queue.add("send", delay=delay / 1000)
        if leaving == "closed":
            await first.close()
        await done.wait()
