"""Where payloads are looked for that must be there, or must not be readable there."""

from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis


def files(place: Path) -> list[Path]:
    """What a directory keeps of the payloads of the queue mail."""
    return list(place.glob("mail/*"))


async def stored(redis: Redis) -> bytes:
    """Everything that the store holds, as one text."""
    found = b""
    async for key in cast(Any, redis.scan_iter()):
        kind = await redis.type(key)
        if kind == b"hash":
            found += b" ".join(await cast(Any, redis.hvals(key)))
        elif kind == b"stream":
            found += repr(await redis.xrange(key)).encode()
    return found
