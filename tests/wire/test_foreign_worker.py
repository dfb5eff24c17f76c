"""A routing worker in Node beside ours: the lock it renews is believed."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.routing.harness import Harness, harness_on
from tests.wire.conftest import LATEST
from tests.wire.install import find_node, installed
from waystation.routing import Job, Queue, SchedulerOptions, Worker
from waystation.routing.redis import scripts

PROGRAM = Path(__file__).with_name("foreign_worker.mjs")
WITHIN_S = 60
LOCK_S = 600
"""Longer than any test takes, however busy the machine is."""

QUICK = SchedulerOptions(tick=0.05, recover=0.05, mend=0.2, term=2)


class ForeignWorker:
    """The program, one command at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def says(self, command: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        async with asyncio.timeout(WITHIN_S):
            return json.loads(await self._process.stdout.readline())

    async def claims(self) -> str:
        id = await self.says("claim")
        assert id is not None
        return id


@asynccontextmanager
async def started(url: str, worker: str, renewal: str) -> AsyncGenerator[ForeignWorker]:
    folder = await asyncio.to_thread(installed, LATEST)
    program = (await asyncio.to_thread(find_node)).program
    process = await asyncio.create_subprocess_exec(
        program, str(PROGRAM), cwd=folder, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    ours = {each.name: each.source for each in (scripts.claim_job, scripts.release_lock)}
    what = {"url": url, "worker": worker, "lockTtl": LOCK_S, "renewal": renewal, "scripts": ours}
    process.stdin.write(json.dumps(what).encode() + b"\n")
    try:
        yield ForeignWorker(process)
    finally:
        process.stdin.close()
        async with asyncio.timeout(WITHIN_S):
            await process.wait()


@pytest.fixture
async def harness(redis_url: str, node6: object) -> AsyncIterator[Harness]:
    """A harness of the queue; the fixture `node6` makes sure that Node is there."""
    async with harness_on(redis_url) as opened:
        yield opened


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await condition():
            await asyncio.sleep(0.01)


async def lease_end(harness: Harness, id: str) -> float:
    return await harness.redis.zscore(harness.keys.leases, id) or 0


@pytest.mark.parametrize("registered", [False, True], ids=["unregistered", "registered"])
@pytest.mark.parametrize("renewal", ["EXPIRE", "PEXPIRE", "SET XX EX", "SET XX"])
async def test_a_worker_in_node_that_renews_its_lock_keeps_its_job(
    harness: Harness, redis_url: str, renewal: str, registered: bool
) -> None:
    """B-15 B-66"""
    queue, ours = Queue(harness.store), list[str]()
    async with started(redis_url, "node-1", renewal) as foreign:
        id = (await queue.add("email")).id
        if registered:
            await foreign.says("beat")
        assert await foreign.claims() == id
        await foreign.says("renew")
        claimed_until = await lease_end(harness, id)

        def take_over(job: Job) -> None:
            ours.append(job.id)

        async with Worker({"email": take_over}, harness.store, scheduler=QUICK):
            # The lease was over from the start; when it has moved, the upkeep has looked at it.
            async def looked_at() -> bool:
                return await lease_end(harness, id) != claimed_until

            await until(looked_at)
            assert await lease_end(harness, id) > claimed_until
            assert await foreign.says("finish") == 1

    assert ours == []
    assert await queue.state(id) == "completed"
    result = await queue.result(id)
    assert result is not None
    assert result.data == "by node"
    assert await harness.keys_like("bridge:jobs:l*") == []


async def test_a_worker_in_node_whose_lock_has_run_out_loses_its_job(
    harness: Harness, redis_url: str
) -> None:
    """B-15 B-60"""
    queue = Queue(harness.store)
    async with started(redis_url, "node-1", "EXPIRE") as foreign:
        id = (await queue.add("email")).id
        assert await foreign.claims() == id
        await harness.redis.delete(harness.keys.of(id).lock)

        async def take_over(job: Job) -> str:
            return "by us"

        async with Worker({"email": take_over}, harness.store, scheduler=QUICK):

            async def completed() -> bool:
                return await queue.state(id) == "completed"

            await until(completed)
        assert await foreign.says("finish") == 0

    result = await queue.result(id)
    assert result is not None
    assert result.data == "by us"
