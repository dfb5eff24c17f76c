"""The producer's limiter and its walk, as the origin has them."""

import os
from collections.abc import Iterator
from typing import Any

KEY = "jobqueue:rate_limit:producer"


async def literal_allow(redis: Any, rate: int, *, crash: bool = False) -> bool:
    """INCR, then EXPIRE when it was the first; a crash in between leaves no TTL."""
    count = await redis.incr(KEY)
    if crash:
        return False
    if count == 1:
        await redis.expire(KEY, 1)
    return count <= rate


def literal_scan(root: str) -> Iterator[str]:
    """Walk and give every file, each time anew."""
    for directory, _, names in os.walk(root):
        yield from (os.path.join(directory, name) for name in names)
