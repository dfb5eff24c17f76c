"""Events: what happens to the files of a queue, as it happens."""

from contextlib import aclosing

from waystation.core.events import StreamEvent
from waystation.core.store.commands import newest_first
from waystation.core.store.connection import Store
from waystation.files.redis.keys import FileKeys


class Event(StreamEvent, frozen=True, kw_only=True):
    """One thing that happened to one file, or to a worker."""


async def last_event_of(store: Store, keys: FileKeys, id: str) -> dict[bytes, bytes]:
    """The fields of a job's newest event; empty when none is kept."""
    subject = id.encode()
    async with aclosing(newest_first(store.hot, keys.events)) as found:
        async for _, fields in found:
            if fields.get(b"subject") == subject:
                return fields
    return {}
