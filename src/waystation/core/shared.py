"""Shared resources: one for each key and event loop, made by the first user, closed by the last."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Shared(Generic[K, T]):
    """One thing for each key and loop, for as long as somebody has taken it."""

    def __init__(
        self,
        make: Callable[[K], Coroutine[Any, Any, T]],
        close: Callable[[T], Awaitable[None]],
    ) -> None:
        self._make = make
        self._close = close
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[K, _Used[T]]] = (
            WeakKeyDictionary()
        )
        self._leaving: set[asyncio.Task[None]] = set()

    async def take(self, key: K) -> T:
        """Get what there is for a key; whoever takes it gives it back once."""
        loop = asyncio.get_running_loop()
        used = self._loops.setdefault(loop, {})
        mine = used.get(key)
        if mine is None or _failed(mine.making):
            mine = used[key] = _Used(loop.create_task(self._make(key)))
        mine.users += 1
        try:
            # Whoever gives up does not stop the others from getting it.
            return await asyncio.shield(mine.making)
        except BaseException:
            await self._leave(used, key, mine)
            raise

    async def give_back(self, key: K) -> None:
        """Use it no more; the last one closes it."""
        used = self._loops[asyncio.get_running_loop()]
        await self._leave(used, key, used[key])

    @asynccontextmanager
    async def using(self, key: K) -> AsyncGenerator[T]:
        """Have it while inside."""
        taken = await self.take(key)
        try:
            yield taken
        finally:
            await self.give_back(key)

    async def _leave(self, used: "dict[K, _Used[T]]", key: K, mine: "_Used[T]") -> None:
        mine.users -= 1
        if mine.users:
            return
        # Before anything is waited for: whoever comes now gets a new one.
        if used.get(key) is mine:
            del used[key]
        leaving = asyncio.create_task(self._end(mine.making))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        await asyncio.shield(leaving)

    async def _end(self, making: "asyncio.Task[T]") -> None:
        making.cancel()
        await asyncio.wait([making])
        if not _failed(making):
            await self._close(making.result())


class _Used(Generic[T]):
    __slots__ = ("making", "users")

    def __init__(self, making: "asyncio.Task[T]") -> None:
        self.making = making
        self.users = 0


def _failed(making: "asyncio.Task[Any]") -> bool:
    return making.done() and (making.cancelled() or making.exception() is not None)
