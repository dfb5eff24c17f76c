"""Which keys there are, held against what the keyspaces declare."""

from collections.abc import AsyncGenerator
from typing import cast

from redis.asyncio import Redis

from waystation.core.store.keyspace import Keyspace, Row

NO_TTL = -1
GONE = -2


async def strays(redis: Redis, *spaces: type[Keyspace]) -> AsyncGenerator[str]:
    """A sentence for every key that is undeclared, of another type, or lacks its TTL."""
    async for key, kind, ttl in _seen(redis):
        if ttl == GONE:
            continue
        rows = [row for space in spaces if (row := space.matches(key))]
        if not any(_fits(row, kind, ttl) for row in rows):
            yield _complaint(key.decode(errors="replace"), kind, rows)


async def _seen(redis: Redis) -> AsyncGenerator[tuple[bytes, str, int]]:
    """Every key with its type and the milliseconds it has left, a thousand in one exchange."""
    cursor = -1
    while cursor:
        cursor, keys = cast("tuple[int, list[bytes]]", await redis.scan(max(cursor, 0), count=1000))
        pipe = redis.pipeline(transaction=False)
        for key in keys:
            pipe.type(key)
            pipe.pttl(key)
        answers = await pipe.execute()
        for key, kind, ttl in zip(keys, answers[::2], answers[1::2], strict=True):
            yield key, kind.decode(), ttl


def _fits(row: Row, kind: str, ttl: int) -> bool:
    return row.type == kind and (row.ttl is None or ttl != NO_TTL)


def _complaint(key: str, kind: str, rows: list[Row]) -> str:
    if not rows:
        return f"{key} ({kind}) is declared by no keyspace"
    row = rows[0]
    if row.type != kind:
        return f"{key} is a {kind}, but {row.pattern} is declared as {row.type}"
    return f"{key} has no TTL, but {row.pattern} should live for {row.ttl}"
