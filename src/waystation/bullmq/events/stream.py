"""Queue events: listening to what happens in a queue, and publishing events of one's own."""

import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from waystation.bullmq.events.event import QueueEvent, read_event
from waystation.bullmq.events.finishes import Finishes
from waystation.bullmq.events.gaps import BEGINNING, Extent, Gap, Trail, order
from waystation.bullmq.redis.client import QueueClient, client_name
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.scripts import extent
from waystation.core import codec
from waystation.core.durations import Duration
from waystation.core.errors import InvalidOption
from waystation.core.events import EventName
from waystation.core.options import checked
from waystation.core.store.client import BLOCK_S
from waystation.core.store.commands import Entry, ask, read_on
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import reconnecting
from waystation.core.store.script import Client

NOW = "$"
"""The position after all events so far."""
START = "0"
"""The position before all events that are still kept."""
KEPT_BY_PRODUCERS = 1000

_AT_ONCE = 1000
POSITION = re.compile(r"\$|\d+(-\d+)?")
_OF_THE_QUEUE = frozenset(str(name) for name in EventName)


@checked
class QueueEvents(QueueClient):
    """Listens to a queue; iterating over it yields all events since it was opened."""

    def __init__(self, name: str, url: str | Store | None = None, *, prefix: str = PREFIX) -> None:
        super().__init__(name, url, prefix=prefix)
        self._at_opening: Extent | None = None
        self._finishes = Finishes(self, self._connect_queue)

    async def _enter(self) -> None:
        self._at_opening = await extent(await self._client(), self._keys)

    def __aiter__(self) -> AsyncIterator[QueueEvent]:
        found = self._at_opening
        return self._events(Trail.from_now(found)) if found else self.listen()

    async def last_id(self) -> str:
        """The id of the newest event, after which to go on listening."""
        return (await extent(await self._client(), self._keys)).last or BEGINNING

    async def listen(self, after: str = NOW) -> AsyncGenerator[QueueEvent]:
        """Events after this position: an event's id, START or NOW.

        After an outage of the store it goes on where it was; it ends when the listener is closed.
        For events that were trimmed away before they could be read there is a `Gap`.
        """
        if not POSITION.fullmatch(after):
            raise InvalidOption(f"a position is '$' or an event's id such as 17-0, got {after!r}")
        trail = await self._unless_closed(lambda: reconnecting(lambda: self._begin(after)))
        async with contextlib.aclosing(self._events(trail)) as events:
            async for event in events:
                yield event

    async def wait(self, job_id: str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        return await self._unless_closed(lambda: self._finishes.of(job_id, timeout))

    async def _close(self) -> None:
        await self._finishes.close()
        await super()._close()

    async def _begin(self, after: str) -> Trail:
        client = await self._client()
        if after == NOW:
            return Trail.from_now(await extent(client, self._keys))
        if order(after) == order(START):
            return Trail.from_the_start(await extent(client, self._keys))
        return Trail.from_place(after, await extent(client, self._keys, after=after))

    async def _events(self, trail: Trail) -> AsyncGenerator[QueueEvent]:
        # Dashboards count listeners by this name, so nothing but listening happens under it.
        name = client_name(self._keys, ":qe")
        reading = self._read_on(lambda client: self._read(client, trail), client_name=name)
        async with contextlib.aclosing(reading) as pages:
            async for gap, entries in pages:
                if gap:
                    yield gap
                for id, entry in entries:
                    yield read_event(self.name, id, entry)

    async def _read(self, client: Client, trail: Trail) -> tuple[Gap | None, Sequence[Entry]]:
        entries = await read_on(client, self._keys.events, trail.at, most=_AT_ONCE, block_s=BLOCK_S)
        if not entries:
            return None, ()
        found = await extent(await self._client(), self._keys)
        return trail.follow([id.decode() for id, _ in entries], found), entries

    async def _client(self) -> Client:
        return (await self._connected()).hot


@checked
class QueueEventsProducer(QueueClient):
    """Publishes events of your own to all who listen to a queue."""

    async def publish(
        self,
        event: str,
        fields: Mapping[str, Any] | None = None,
        *,
        max_len: int = KEPT_BY_PRODUCERS,
    ) -> str:
        """Publish an event and return its id; text is sent as it is, other values as JSON."""
        if not event or event in _OF_THE_QUEUE:
            raise InvalidOption(f"an event needs a name that BullMQ does not use, got {event!r}")
        if max_len < 1:
            raise InvalidOption(f"max_len must be at least 1, got {max_len}")
        own = dict(fields or {})
        if "event" in own:
            raise InvalidOption("the field 'event' holds the event's name; call this one otherwise")
        pairs = [part for name, value in own.items() for part in (name, _wire(value))]
        client = (await self._connected()).hot
        trimmed = ("MAXLEN", "~", max_len)
        id = await ask(client, "XADD", self._keys.events, *trimmed, "*", "event", event, *pairs)
        return id.decode()


def _wire(value: Any) -> str | bytes:
    return value if isinstance(value, str | bytes) else codec.encode(value)
