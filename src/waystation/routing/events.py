"""Events: what happens to jobs and workers, as it happens."""

from collections.abc import AsyncGenerator
from datetime import datetime

import msgspec

from waystation.core import events as envelope
from waystation.core.durations import instant
from waystation.core.line.event_trail import read_on
from waystation.core.store.connection import Store
from waystation.routing.redis.keys import RoutingKeys

_BLOCK_S = 5.0
"""A longer block would hide a connection that has died."""
_PAGE = 100


class Event(envelope.Event, frozen=True, kw_only=True):
    """One thing that happened to one job, or to a worker."""

    id: str
    """Its place in the stream; `events(after=event.id)` continues behind it."""

    @property
    def type(self) -> str:
        """The job's type; empty when it happened to a worker."""
        return self.queue

    @property
    def job_id(self) -> str | None:
        """The job that it happened to, or the worker, or the type."""
        return self.subject

    @property
    def at(self) -> datetime:
        """When it happened, by the server's clock."""
        return instant(self.at_ms)


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
                event = envelope.from_entry(after, fields)
                yield Event(id=after, **msgspec.structs.asdict(event))
    finally:
        await redis.aclose()
