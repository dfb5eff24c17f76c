"""How many handlers run at once, changed while they run."""

import asyncio
import threading
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, Worker
from waystation.core.errors import InvalidOption


async def nothing(job: Job) -> None: ...


class Crowd:
    """A handler that counts how many of it run at once, and lets none go until told."""

    def __init__(self) -> None:
        self.running = 0
        self.gate = asyncio.Semaphore(0)

    async def __call__(self, job: Job) -> None:
        self.running += 1
        await self.gate.acquire()
        self.running -= 1

    async def until(self, running: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.running != running:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        assert self.running == running


async def test_concurrency_can_be_changed_while_running(redis_url: str) -> None:
    crowd = Crowd()
    worker = Worker("mail", crowd, redis_url, concurrency=2)
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add_many([("x", None)] * 20)
        await crowd.until(2)
        worker.concurrency = 5
        await crowd.until(5)
        worker.concurrency = 1
        for _ in range(4):
            crowd.gate.release()
        await crowd.until(1)
        worker.concurrency = 3
        await crowd.until(3)
        assert worker.concurrency == 3
        for _ in range(20):
            crowd.gate.release()


async def test_threads_grow_with_the_concurrency(redis_url: str) -> None:
    together = threading.Barrier(3)

    def handle(job: Any) -> None:
        together.wait(LIMIT_S)

    worker = Worker("mail", handle, redis_url, concurrency=1)
    worker.concurrency = 2
    async with Queue("mail", redis_url) as queue, worker:
        worker.concurrency = 3
        await queue.add_many([("x", None)] * 3)
        async with asyncio.timeout(LIMIT_S):
            while (await queue.counts("completed"))["completed"] < 3:
                await asyncio.sleep(0.005)


def test_a_worker_without_concurrency_is_refused(redis_url: str) -> None:
    worker = Worker("mail", nothing, redis_url)
    with pytest.raises(InvalidOption, match="concurrency must be at least 1, got 0"):
        worker.concurrency = 0
