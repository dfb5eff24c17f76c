"""Clients of a store: how queues and workers connect to it, and leave it."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar
from weakref import WeakSet

from redis.asyncio import Redis

from waystation.core.errors import InvalidOption, StoreUnreachable
from waystation.core.options import nearest
from waystation.core.shared import Shared
from waystation.core.store import ending, faults
from waystation.core.store.commands import Entry, newest_id, read_on
from waystation.core.store.connection import Store, StoreOptions, connect
from waystation.core.store.keyspace import Keyspace
from waystation.core.store.reconnect import reconnecting
from waystation.core.store.script import Client
from waystation.core.store.settings import store_settings

T = TypeVar("T")

BLOCK_S = 5.0
"""A longer block would hide a connection that has died."""
_PAGE = 500


async def open_store(url: str | None = None, options: StoreOptions | None = None) -> Store:
    """Reach a store that many queues and workers may share; whoever opens it closes it.

    Without a URL it is the one that the settings name, `WAYSTATION_STORE__URL` or `store.url` in
    `waystation.yaml`, else this directory's own.
    """
    return await connect(*place_of(url, options))


def place_of(
    url: str | None = None, options: StoreOptions | None = None
) -> tuple[str | None, StoreOptions]:
    """The URL and options that a store is reached by; no URL stands for this directory's own."""
    if url and options:
        return url, options
    configured = store_settings()
    return url or configured.url, options or configured


def _meant(name: str, known: Sequence[str], elsewhere: Mapping[str, str]) -> str | None:
    """The method that a name stands for elsewhere: with `get_`, without it, or by its letters."""
    public = [each for each in known if not each.startswith("_")]
    name = re.sub("(?<!^)[A-Z]", lambda letter: f"_{letter[0]}", name).lower()
    asked = name.removeprefix("get_")
    if name in elsewhere:
        return elsewhere[name]
    for likely in (name, asked, f"get_{asked}", f"{name}_job"):
        if likely in public:
            return likely
    return nearest(name, public)


class StoreClient:
    """Something that works on a store: opened when first needed, closed by whoever opened it."""

    _called_elsewhere: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Names that other libraries have for its methods."""

    def __init__(self, url: str | Store | None = None) -> None:
        if not isinstance(url, str | Store | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"a store is given by its URL, or as a Store, got {url!r}")
        self._given = url if isinstance(url, Store) else None
        self._url = url if isinstance(url, str) else None
        self._opening: asyncio.Task[Store] | None = None
        self._store: Store | None = None
        self._ending = asyncio.Event()
        self._readers: WeakSet[Redis] = WeakSet()
        self._closing: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    if not TYPE_CHECKING:  # A checker knows every name by itself, and must go on doing so.

        def __getattr__(self, name: str) -> Any:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            known = dir(type(self))
            meant = None if name.startswith("_") else _meant(name, known, self._called_elsewhere)
            raise AttributeError(f"{said}; did you mean {meant}?" if meant else said, name=name)

    async def close(self, force: bool = False) -> None:
        """Close the client for good; `force` matters to those that wait for something first."""
        self._ending.set()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        # Whoever gives up, or closes what is being closed, leaves nothing half open.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        """What has to happen once, whoever closes and however often."""
        await self._release()

    async def _release(self) -> None:
        """Leave the store; it is reached anew when it is needed."""
        self._store = None
        if self._opening is None:
            return
        opening, self._opening = self._opening, None
        self._leaving = asyncio.create_task(self._leave(opening))
        await asyncio.shield(self._leaving)

    async def _leave(self, opening: "asyncio.Task[Store]") -> None:
        opening.cancel()
        await asyncio.wait([opening])
        if _failed(opening):
            return
        await self._on_leave()
        # Of iterators that nobody asks for more.
        for client in [*self._readers]:
            await client.aclose()
        if self._given is None:
            await self._disconnect(opening.result())

    async def __aenter__(self) -> Self:
        try:
            await self._enter()
        except BaseException:
            # Nobody leaves what was never entered.
            await self._release()
            raise
        return self

    async def _enter(self) -> None:
        """What has to happen before one is inside."""
        await self._connected()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _connected(self) -> Store:
        """The store, reached once whoever asks."""
        if self._store is not None:
            return self._store
        if self._ending.is_set():
            raise self._closed_error()
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.create_task(self._open())
        # Whoever gives up does not stop the others from getting there.
        store = await asyncio.shield(self._opening)
        if not self._ending.is_set():
            self._store = store
        return store

    async def _open(self) -> Store:
        store = self._given or await self._connect()
        try:
            if self._keyspace is not None:
                store.require_one_slot(self._keyspace)
            await self._on_connect(store)
        except BaseException:
            await self._on_leave()
            if self._given is None:
                await self._disconnect(store)
            raise
        return store

    # What goes on until this, or the store that it was given, is closed

    async def _unless_closed(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of a step that may take long; an error as soon as this is closed."""
        endings = [self._ending, *([self._given.ending] if self._given else [])]
        return await ending.before(endings, step, str(self._closed_error()))

    async def _read_on(
        self, read: Callable[[Client], Coroutine[Any, Any, T]], *, client_name: str | None = None
    ) -> AsyncGenerator[T]:
        """What a step reads again and again, by a client that may block; ends with this.

        After an outage of the store it goes on where it was.
        """
        async with self._reader(BLOCK_S, client_name=client_name) as client:
            while True:
                try:
                    found = await self._unless_closed(lambda: reconnecting(lambda: read(client)))
                except StoreUnreachable:
                    # It has tried again, except when there is nobody to ask any more.
                    return
                yield found

    async def _follow(self, stream: str, after: str | None) -> AsyncGenerator[Sequence[Entry]]:
        """The entries of a stream behind one, by default the last; none if none came in a while."""
        store = await self._connected()
        at = (
            await self._unless_closed(lambda: newest_id(store.hot, stream))
            if after is None
            else after
        )

        async def read(client: Client) -> Sequence[Entry]:
            nonlocal at
            found = await read_on(client, stream, at, most=_PAGE, block_s=BLOCK_S)
            if found:
                at = found[-1][0].decode()
            return found

        async with aclosing(self._read_on(read)) as pages:
            async for page in pages:
                yield page

    @asynccontextmanager
    async def _reader(
        self, block_s: float, *, client_name: str | None = None
    ) -> AsyncGenerator[Redis]:
        client = (await self._connected()).blocking(block_s, client_name=client_name)
        self._readers.add(client)
        try:
            yield client
        finally:
            self._readers.discard(client)
            await client.aclose()

    def _closed_error(self) -> StoreUnreachable:
        what = "store" if self._given and self._given.ending.is_set() else type(self).__name__
        return faults.closed(f"this {what} has been closed")

    @property
    def _keyspace(self) -> Keyspace | None:
        """The keys that it works on, under the name that its kind gives them."""
        found = getattr(self, "keys", None) or getattr(self, "_keys", None)
        return found if isinstance(found, Keyspace) else None

    async def _connect(self) -> Store:
        """Reach the store that nobody has handed over."""
        return await open_store(self._url)

    async def _disconnect(self, store: Store) -> None:
        """Leave such a store."""
        await store.close()

    async def _on_connect(self, store: Store) -> None:
        """What is to be done when the store is first reached, for those who leave a mark there."""

    async def _on_leave(self) -> None:
        """What is to be undone of that, perhaps a part of it, before the store is left."""


async def _reach(place: tuple[str | None, StoreOptions]) -> Store:
    return await connect(*place)


stores = Shared(_reach, Store.close)
"""One store for each place, for those of a process who share what they did not open."""


def _failed(opening: asyncio.Task[Any]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
