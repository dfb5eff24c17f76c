"""Events: what happens to the files of a queue, as it happens."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime

import msgspec

from waystation.core import events as envelope
from waystation.core.durations import instant
from waystation.core.errors import StoreBusy, StoreUnreachable
from waystation.core.line.event_trail import newest_first, read_on
from waystation.core.store.connection import Store
from waystation.files.redis.keys import FileKeys

_BLOCK_S = 5.0
"""A longer block would hide a connection that has died."""
_PAGE = 100
_AGAIN_S = 1.0
"""Between two tries to reach a store that has gone away."""


class Event(envelope.Event, frozen=True, kw_only=True):
    """One thing that happened to one file, or to a worker."""

    id: str
    """Its place in the stream; `events(after=event.id)` continues behind it."""

    @property
    def job_id(self) -> str | None:
        """The job it happened to; None when it happened to a worker."""
        return self.subject

    @property
    def at(self) -> datetime:
        """When it happened, by the server's clock."""
        return instant(self.at_ms)


async def follow(
    store: Store, keys: FileKeys, after: str, *, until: Callable[[], bool] = lambda: False
) -> AsyncGenerator[Event]:
    """Events behind one, as they come; `0-0` begins with the oldest that is kept."""
    async with store.clone(max_connections=1) as own:
        redis = own.blocking(_BLOCK_S)
        while not until():
            try:
                found = await read_on(redis, keys.events, after, most=_PAGE, block_s=_BLOCK_S)
            except (StoreUnreachable, StoreBusy):
                # Nothing was read, so the next call continues at the same place.
                await asyncio.sleep(_AGAIN_S)
                continue
            for id, fields in found:
                after = id.decode()
                event = envelope.from_entry(after, fields)
                yield Event(id=after, **msgspec.structs.asdict(event))


async def last_event_of(store: Store, keys: FileKeys, id: str) -> dict[bytes, bytes]:
    """The fields of a job's newest event; empty when none is kept."""
    subject = id.encode()
    async with aclosing(newest_first(store.hot, keys.events)) as found:
        async for _, fields in found:
            if fields.get(b"subject") == subject:
                return fields
    return {}
