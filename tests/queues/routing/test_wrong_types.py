"""A key that holds something of another type stops the namespace, and no job is lost by it."""

import asyncio
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from waystation.core.errors import WrongType
from waystation.queues.routing import Worker

from .hands import Hands

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
