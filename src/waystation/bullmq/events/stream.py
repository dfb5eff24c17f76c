"""What happens in a queue, told as it happens or from any point of the past."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from waystation.bullmq.events.event import QueueEvent, read_event
from waystation.bullmq.events.finishes import Finishes
from waystation.bullmq.events.gaps import BEGINNING, Extent, Gap, Trail, order
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.queue_scripts import extent
from waystation.bullmq.source.marker import client_name
from waystation.core import codec
from waystation.core.errors import InvalidOption, StoreBusy, StoreUnreachable
from waystation.core.events import EventName
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import Reconnect, reconnecting
from waystation.core.store.script import Client

NOW = "$"
"""The position behind everything that has happened."""
START = "0"
"""The position before everything that is still kept."""
KEPT_BY_PRODUCERS = 1000

_BLOCK_S = 10.0
_AT_ONCE = 1000
_STOP_AGAIN_S = 0.05
_POSITION = re.compile(r"\$|\d+(-\d+)?")
_Entry: TypeAlias = tuple[bytes, dict[bytes, bytes]]
_OF_THE_QUEUE = frozenset(str(name) for name in EventName)


class QueueEvents(QueueClient):
    """Listens to a queue; iterating over it tells everything since it was opened."""

    def __init__(self, name: str, url: str | Store | None = None, *, prefix: str = PREFIX) -> None:
        super().__init__(name, url, prefix=prefix)
        self._at_opening: Extent | None = None
        self._ending = asyncio.Event()
        self._finishes = Finishes(self, self._client)

    async def _enter(self) -> None:
        self._at_opening = await extent(await self._client(), self.keys)

    def __aiter__(self) -> AsyncIterator[QueueEvent]:
        found = self._at_opening
        return self._follow(Trail.from_now(found)) if found else self.listen()

    async def last_id(self) -> str:
        """Where the stream ends now; what is told after it has not happened yet."""
        return (await extent(await self._client(), self.keys)).last or BEGINNING

    async def listen(self, after: str = NOW) -> AsyncGenerator[QueueEvent]:
        """Tell what happens after this position: an event's id, START or NOW.

        It goes on where it was when the store has been away, and ends when this is closed. Events
        that were trimmed away before they could be read are told as a `Gap`.
        """
        if not _POSITION.fullmatch(after):
            raise InvalidOption(f"a position is '$' or an event's id such as 17-0, got {after!r}")
        trail = await reconnecting(lambda: self._begin(after))
        async with contextlib.aclosing(self._follow(trail)) as told:
            async for event in told:
                yield event

    async def wait_until_finished(self, job_id: str, timeout: int | None = None) -> Any:
        """What the job returned, once it has; raises JobFailed, or TimedOut after milliseconds."""
        return await self._finishes.of(job_id, timeout)

    async def _close(self) -> None:
        self._ending.set()
        await self._finishes.close()
        await super()._close()

    async def _begin(self, after: str) -> Trail:
        client = await self._client()
        if after == NOW:
            return Trail.from_now(await extent(client, self.keys))
        if order(after) == order(START):
            return Trail.from_the_start(await extent(client, self.keys))
        return Trail.from_place(after, await extent(client, self.keys, after=after))

    async def _follow(self, trail: Trail) -> AsyncGenerator[QueueEvent]:
        reconnect = Reconnect()
        async with await self._listening() as store:
            client = store.blocking(_BLOCK_S)
            while True:
                reading = asyncio.create_task(self._read(client, trail))
                if not await self._came_before_the_end(reading):
                    return
                try:
                    gap, entries = reading.result()
                except (StoreUnreachable, StoreBusy):
                    await reconnect.pause()
                    continue
                reconnect.answered()
                if gap:
                    yield gap
                for id, entry in entries:
                    yield read_event(self.name, id, entry)

    async def _read(self, client: Client, trail: Trail) -> tuple[Gap | None, Sequence[_Entry]]:
        with faults.translated():
            answer = await client.execute_command(
                *("XREAD", "COUNT", _AT_ONCE, "BLOCK", int(_BLOCK_S * 1000)),
                *("STREAMS", self.keys.events, trail.at),
            )
        if not answer:
            return None, ()
        entries = answer[0][1]
        found = await extent(await self._client(), self.keys)
        return trail.follow([id.decode() for id, _ in entries], found), entries

    async def _listening(self) -> Store:
        store = await self._connected()
        # Dashboards count listeners by this name, so nothing but listening happens under it.
        name = client_name(self.keys, ":qe")
        return Store(store.address, msgspec.structs.replace(store.options, client_name=name))

    async def _client(self) -> Client:
        return (await self._connected()).hot

    async def _came_before_the_end(self, reading: "asyncio.Future[Any]") -> bool:
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait([reading, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            came = reading.done()
            while not reading.done():
                # More than once, because redis-py loses a cancellation while it connects.
                reading.cancel()
                await asyncio.wait([reading], timeout=_STOP_AGAIN_S)
        return came


class QueueEventsProducer(QueueClient):
    """Tells events of one's own to everybody who listens to a queue."""

    async def publish(
        self,
        event: str,
        fields: Mapping[str, Any] | None = None,
        *,
        max_len: int = KEPT_BY_PRODUCERS,
    ) -> str:
        """Tell an event and return its id; texts travel as they are, other values as JSON."""
        if not event or event in _OF_THE_QUEUE:
            raise InvalidOption(f"an event of one's own needs a name of its own, got {event!r}")
        if max_len < 1:
            raise InvalidOption(f"max_len must be at least 1, got {max_len}")
        own = dict(fields or {})
        if "event" in own:
            raise InvalidOption("the field 'event' holds the event's name; call this one otherwise")
        pairs = [part for name, value in own.items() for part in (name, _wire(value))]
        client = (await self._connected()).hot
        with faults.translated():
            id = await client.execute_command(
                *("XADD", self.keys.events, "MAXLEN", "~", max_len, "*", "event", event, *pairs)
            )
        return id.decode()


def _wire(value: Any) -> str | bytes:
    return value if isinstance(value, str | bytes) else codec.encode(value)
