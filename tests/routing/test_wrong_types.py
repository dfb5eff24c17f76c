"""A key that holds something of another type stops the namespace, and no job is lost by it."""

import asyncio
from typing import Any

import pytest

from tests.routing.hands import Hands
from tests.support.patience import LIMIT_S
from waystation.core.errors import ScriptFailed, WrongType
from waystation.core.outcome import Failed, Returned
from waystation.routing import Worker
from waystation.routing.options import BackoffRule, Retry

MANY = 20


@pytest.mark.parametrize("name", ["active", "claims", "leases", "routes", "heads", "events"])
async def test_nothing_is_taken_until_it_is_repaired(hands: Hands, name: str) -> None:
    key = getattr(hands.keys, name)
    ids = [await hands.add() for _ in range(MANY)]
    kept = await hands.asked("DUMP", key)
    await hands.redis.set(key, "something else")
    ran: list[str] = []

    async def handle(job: Any) -> None:
        ran.append(job.id)

    source = hands.source()
    for _ in range(3):
        with pytest.raises(WrongType, match=f"{key} must hold a "):
            await source.settle([], claim=5)
    assert await hands.waiting() == ids

    await hands.redis.delete(key)
    if kept is not None:
        await hands.asked("RESTORE", key, 0, kept)
    async with Worker({"email": handle}, hands.store):
        async with asyncio.timeout(LIMIT_S):
            while len(ran) < MANY:
                await asyncio.sleep(0.01)
    assert sorted(ran) == sorted(ids)


AT_ONCE = Retry(backoff=BackoffRule(delay=0))


@pytest.mark.parametrize("outcome", [Returned(), Failed(RuntimeError("no"))])
async def test_a_held_job_whose_route_is_gone_waits_again(hands: Hands, outcome: Any) -> None:
    id = await hands.add(retry=AT_ONCE)
    source = hands.source()
    (claim,) = await hands.claim(source)
    await hands.redis.hdel(hands.keys.routes, id)
    assert not await hands.settle(source, claim, outcome)
    assert await hands.waiting() == [id]
    assert await hands.claim_ids(source) == [id]


@pytest.mark.parametrize("outcome", [Returned(), Failed(RuntimeError("no"))])
async def test_a_job_that_cannot_be_indexed_is_put_off_until_it_can(
    hands: Hands, outcome: Any
) -> None:
    id = await hands.add(retry=AT_ONCE)
    source = hands.source()
    (claim,) = await hands.claim(source)
    index = f'{hands.keys.name}:index:ids:["email","any","",[],[],[],[]]'
    await hands.redis.set(index, "something else")

    assert not await hands.settle(source, claim, outcome)
    assert await hands.claim_ids(source) == []
    with pytest.raises(ScriptFailed, match="index:ids"):
        await hands.add()

    await hands.redis.delete(index)
    await hands.clock.advance(6)
    assert await hands.claim_ids(source) == [id]


@pytest.mark.parametrize("name", ["places", "heads", "signatures", "claims", "routes", "meta"])
@pytest.mark.parametrize("step", ["coverage", "why", "look"])
async def test_looking_takes_nothing_either(hands: Hands, name: str, step: str) -> None:
    key = getattr(hands.keys, name)
    await hands.redis.set("bridge:jobs:data:x", '{"jobId":"x","type":"email"}')
    await hands.redis.rpush("bridge:jobs:waiting", "x")
    await hands.redis.set(key, "something else")
    source = hands.source()

    steps = {
        "coverage": hands.queue.coverage,
        "why": lambda: hands.queue.why("x"),
        "look": lambda: source.wait(3_600),
    }
    with pytest.raises(WrongType, match=f"{key} must hold a "):
        await steps[step]()

    assert await hands.waiting() == ["x"]
    await hands.redis.delete(key)
    assert await hands.claim_ids(source) == ["x"]
