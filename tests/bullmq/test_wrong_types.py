"""A key that holds something of another type stops the queue, and no job is lost by it."""

import asyncio
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import NewJob, Worker
from waystation.bullmq.options import JobOptions
from waystation.bullmq.queue import Queue
from waystation.core.errors import ScriptFailed, WrongType
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Settled

MANY = 30
STOPPING = ("active", "completed", "stalled", "events", "marker", "delayed", "meta", "wait")


async def spoil(harness: Harness, name: str) -> bytes | None:
    """Put a text where something else belongs; what was there."""
    key = f"{harness.keys.base}{name}"
    kept = await harness.call("DUMP", key)
    await harness.redis.set(key, "something else")
    return kept


async def repair(harness: Harness, name: str, kept: bytes | None) -> None:
    key = f"{harness.keys.base}{name}"
    await harness.redis.delete(key)
    if kept is not None:
        await harness.call("RESTORE", key, 0, kept)


async def until_completed(harness: Harness, many: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(await harness.ids("completed")) < many:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", STOPPING)
async def test_a_worker_waits_until_it_is_repaired(
    harness: Harness, queue: Queue, name: str
) -> None:
    await queue.add_many([NewJob("send")] * MANY)
    kept = await spoil(harness, name)
    errors: list[BaseException] = []
    ran: list[str] = []
    said = asyncio.Event()

    def listen(error: BaseException) -> None:
        errors.append(error)
        if len(errors) == 2:
            said.set()

    async def handle(job: Any) -> None:
        ran.append(job.id)

    worker = Worker("mail", handle, harness.store)
    worker.on("error", listen)
    async with worker:
        async with asyncio.timeout(LIMIT_S):
            await said.wait()
        assert ran == []
        await repair(harness, name, kept)
        await until_completed(harness, MANY)

    assert len(ran) == MANY
    assert {type(error) for error in errors} == {WrongType}
    assert str(errors[0]).startswith(f"bull:mail:{name} must hold a ")


async def test_an_outcome_is_kept_until_it_can_be_filed(harness: Harness, queue: Queue) -> None:
    await queue.add("send")
    spoiled = asyncio.Event()
    kept: list[bytes | None] = []
    runs: list[str] = []

    async def handle(job: Any) -> None:
        runs.append(job.id)
        kept.append(await spoil(harness, "completed"))

    def listen(error: BaseException) -> None:
        spoiled.set()

    worker = Worker("mail", handle, harness.store)
    worker.on("error", listen)
    async with worker:
        async with asyncio.timeout(LIMIT_S):
            await spoiled.wait()
        await repair(harness, "completed", kept[0])
        await until_completed(harness, 1)
    assert runs == ["1"]


async def test_without_priorities_their_counter_stops_nobody(harness: Harness) -> None:
    """A job of Node's may be called like it."""
    await harness.call("HSET", harness.keys.pc, "name", "send", "data", "{}")
    await harness.redis.lpush(harness.keys.wait, "pc")
    id = await harness.add()
    assert [claim.id for claim in await harness.claim(3)] == ["pc", id]
    with pytest.raises(WrongType, match="bull:mail:pc must hold a string, but holds a hash"):
        await harness.add(priority=1)


async def test_a_number_that_is_taken_is_passed_over(harness: Harness) -> None:
    await harness.redis.set(harness.keys.of("1").job, "no job")
    await harness.redis.set(harness.keys.of("3").job, "no job")
    ids = [await harness.add(), await harness.add(priority=1), await harness.add(delay=0.001)]
    assert len({*ids, "1", "3"}) == 5
    assert await harness.redis.get(harness.keys.of("1").job) == b"no job"


async def test_one_outcome_that_cannot_be_filed_leaves_the_others_unfiled(harness: Harness) -> None:
    """So that the worker may send each of them again by itself."""
    ids = [await harness.add() for _ in range(3)]
    claims = await harness.claim(3)
    await harness.redis.set(harness.keys.of(ids[2]).job, "no job")
    before = await harness.everything()
    outcomes = (Done(1), Failed(RuntimeError("no")), Done(1))
    with pytest.raises(ScriptFailed):
        await harness.worker.settle(
            [Settled(claim, outcome) for claim, outcome in zip(claims, outcomes, strict=True)],
            claim=1,
        )
    assert await harness.everything() == before


async def test_a_limit_that_is_no_number_counts_anew(harness: Harness, queue: Queue) -> None:
    await queue.limits.set_rate_limit(2, 60)
    await harness.redis.set(harness.keys.limiter, "many")
    await queue.add_many([NewJob("send", None, JobOptions())] * 3)
    assert len(await harness.claim(3)) == 2
    assert await harness.claim(3) == []
