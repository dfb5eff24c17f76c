"""Waiting for events of a stream, and for clients that block on the store."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from redis.asyncio import Redis

from tests.support.patience import LIMIT_S

T = TypeVar("T")

_PATIENCE_S = LIMIT_S


async def first(stream: AsyncIterator[T], many: int) -> list[T]:
    """Return the first `many` of a stream; fewer when it ends before."""
    found: list[T] = []
    async with asyncio.timeout(_PATIENCE_S):
        async for each in stream:
            found.append(each)
            if len(found) == many:
                break
    return found


async def blocked_on(redis: Redis, many: int = 1) -> None:
    """Wait until that many clients block on the store."""
    async with asyncio.timeout(_PATIENCE_S):
        while (await redis.info("clients"))["blocked_clients"] < many:
            await asyncio.sleep(0.005)
