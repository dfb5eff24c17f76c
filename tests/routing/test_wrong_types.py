"""A key that holds something of another type stops the namespace, and no job is lost by it."""

import asyncio
from typing import Any

import pytest

from tests.routing.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.errors import ScriptFailed, WrongType
from waystation.core.outcome import Failed, Returned
from waystation.routing import Worker
from waystation.routing.options import BackoffRule, Retry

MANY = 20


@pytest.mark.parametrize("name", ["active", "claims", "leases", "routes", "heads", "events"])
async def test_nothing_is_taken_until_it_is_repaired(harness: Harness, name: str) -> None:
    key = getattr(harness.keys, name)
    ids = [await harness.add() for _ in range(MANY)]
    kept = await harness.asked("DUMP", key)
    await harness.redis.set(key, "something else")
    ran: list[str] = []

    async def handle(job: Any) -> None:
        ran.append(job.id)

    source = harness.source()
    for _ in range(3):
        with pytest.raises(WrongType, match=f"{key} must hold a "):
            await source.settle([], claim=5)
    assert await harness.waiting() == ids

    await harness.redis.delete(key)
    if kept is not None:
        await harness.asked("RESTORE", key, 0, kept)
    async with Worker({"email": handle}, harness.store):
        async with asyncio.timeout(LIMIT_S):
            while len(ran) < MANY:
                await asyncio.sleep(0.01)
    assert sorted(ran) == sorted(ids)


AT_ONCE = Retry(backoff=BackoffRule(delay=0))


@pytest.mark.parametrize("outcome", [Returned(), Failed(RuntimeError("no"))])
async def test_a_held_job_whose_route_is_gone_waits_again(harness: Harness, outcome: Any) -> None:
    id = await harness.add(retry=AT_ONCE)
    source = harness.source()
    (claim,) = await harness.claim(source)
    await harness.redis.hdel(harness.keys.routes, id)
    assert not await harness.settle(source, claim, outcome)
    assert await harness.waiting() == [id]
    assert await harness.claim_ids(source) == [id]


@pytest.mark.parametrize("outcome", [Returned(), Failed(RuntimeError("no"))])
async def test_a_job_that_cannot_be_indexed_is_put_off_until_it_can(
    harness: Harness, outcome: Any
) -> None:
    id = await harness.add(retry=AT_ONCE)
    source = harness.source()
    (claim,) = await harness.claim(source)
    index = f'{harness.keys.name}:index:ids:["email","any","",[],[],[],[]]'
    await harness.redis.set(index, "something else")

    assert not await harness.settle(source, claim, outcome)
    assert await harness.claim_ids(source) == []
    with pytest.raises(ScriptFailed, match="index:ids"):
        await harness.add()

    await harness.redis.delete(index)
    await harness.clock.advance(6)
    assert await harness.claim_ids(source) == [id]


@pytest.mark.parametrize("name", ["places", "heads", "signatures", "claims", "routes", "meta"])
@pytest.mark.parametrize("step", ["coverage", "why", "look"])
async def test_looking_takes_nothing_either(harness: Harness, name: str, step: str) -> None:
    key = getattr(harness.keys, name)
    await harness.redis.set("bridge:jobs:data:x", '{"jobId":"x","type":"email"}')
    await harness.redis.rpush("bridge:jobs:waiting", "x")
    await harness.redis.set(key, "something else")
    source = harness.source()

    steps = {
        "coverage": harness.queue.coverage,
        "why": lambda: harness.queue.why("x"),
        "look": lambda: source.wait(3_600),
    }
    with pytest.raises(WrongType, match=f"{key} must hold a "):
        await steps[step]()

    assert await harness.waiting() == ["x"]
    await harness.redis.delete(key)
    assert await harness.claim_ids(source) == ["x"]
