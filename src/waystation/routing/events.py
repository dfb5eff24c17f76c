"""Events: what happens to jobs and workers, as it happens."""

from collections.abc import AsyncGenerator

from waystation.core.events import StreamEvent
from waystation.core.store.commands import read_on
from waystation.core.store.connection import Store
from waystation.routing.redis.keys import RoutingKeys

_BLOCK_S = 5.0
"""A longer block would hide a connection that has died."""
_PAGE = 100


class Event(StreamEvent, frozen=True, kw_only=True):
    """One thing that happened to one job, or to a worker."""

    @property
    def type(self) -> str:
        """The job's type; empty when it happened to a worker."""
        return self.queue


async def follow(store: Store, keys: RoutingKeys, after: str) -> AsyncGenerator[Event | None]:
    """Events behind one, as they come; `0-0` begins with the oldest that is kept.

    None comes when nothing has happened for a while.
    """
    redis = store.blocking(_BLOCK_S)
    try:
        while True:
            found = await read_on(redis, keys.events, after, most=_PAGE, block_s=_BLOCK_S)
            if not found:
                yield None
            for id, fields in found:
                after = id.decode()
                yield Event.read(id, fields)
    finally:
        await redis.aclose()
