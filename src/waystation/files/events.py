"""Events: what happens to the files of a queue, as it happens."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from waystation.core.errors import StoreBusy, StoreUnreachable
from waystation.core.events import StreamEvent
from waystation.core.store.commands import newest_first, read_on
from waystation.core.store.connection import Store
from waystation.files.redis.keys import FileKeys

_BLOCK_S = 5.0
"""A longer block would hide a connection that has died."""
_PAGE = 100
_AGAIN_S = 1.0
"""Between two tries to reach a store that has gone away."""


class Event(StreamEvent, frozen=True, kw_only=True):
    """One thing that happened to one file, or to a worker."""


async def follow(
    store: Store, keys: FileKeys, after: str, *, until: Callable[[], bool] = lambda: False
) -> AsyncGenerator[Event]:
    """Events behind one, as they come; `0-0` begins with the oldest that is kept."""
    redis = store.blocking(_BLOCK_S)
    try:
        while not until():
            try:
                found = await read_on(redis, keys.events, after, most=_PAGE, block_s=_BLOCK_S)
            except (StoreUnreachable, StoreBusy):
                # Nothing was read, so the next call continues at the same place.
                if not until():
                    await asyncio.sleep(_AGAIN_S)
                continue
            for id, fields in found:
                after = id.decode()
                yield Event.read(id, fields)
    finally:
        await redis.aclose()


async def last_event_of(store: Store, keys: FileKeys, id: str) -> dict[bytes, bytes]:
    """The fields of a job's newest event; empty when none is kept."""
    subject = id.encode()
    async with aclosing(newest_first(store.hot, keys.events)) as found:
        async for _, fields in found:
            if fields.get(b"subject") == subject:
                return fields
    return {}
