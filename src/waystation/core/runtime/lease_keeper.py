"""Renewing leases on a thread of its own, where no handler can be in the way."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, TypeVar

from waystation.core.errors import StoreError, StoreUnreachable
from waystation.core.runtime.claim import Claim, Source
from waystation.core.runtime.tasks import leave_if_cancelled
from waystation.core.telemetry.logs import describe, get_logger

W = TypeVar("W")
_log = get_logger(__name__)

_END_WITHIN_S = 5.0


class LeaseKeeper(Generic[W]):
    """Keeps all held leases alive while it is entered.

    It works on a thread with its own loop: an `async` handler that computes for a minute blocks the
    worker's loop, and would lose every lease if the renewal ran there. All workers of a process
    share that thread.

    An answer may get lost with its connection. A renewal is given up in time for three more before
    the leases are over, each on a connection of its own.
    """

    def __init__(
        self,
        source: Source[W],
        *,
        held: Callable[[], Sequence[Claim[W]]],
        lost: Callable[[Sequence[Claim[W]]], None],
        lease: float,
        every: float,
    ) -> None:
        self._source = source
        self._held = held
        self._lost = lost
        self._every = every
        self._patience = (lease - every) / 4
        self._pause = min(self._patience / 4, 1.0)

    async def __aenter__(self) -> "LeaseKeeper[W]":
        self._home = asyncio.get_running_loop()
        self._thread = _thread
        self._loop = self._thread.enter()
        self._ended = asyncio.Event()
        self._keeping = asyncio.run_coroutine_threadsafe(self._keep(), self._loop)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        try:
            await asyncio.wait([asyncio.wrap_future(self._keeping)], timeout=_END_WITHIN_S)
        finally:
            self._keeping.cancel()
            self._thread.leave()

    async def _keep(self) -> None:
        until_next = self._every
        while not self._ended.is_set():
            try:
                async with AsyncExitStack() as stack:
                    async with _answering(self._patience):
                        extend = await stack.enter_async_context(self._source.keeper())
                    while not await _happens(self._ended, within=until_next):
                        async with _answering(self._patience):
                            await self._beat(extend)
                        until_next = self._every
                    return
            except StoreError as error:
                _log.warning("leases_not_renewed", **describe(error))
            except (Exception, asyncio.CancelledError):
                leave_if_cancelled()
                # Whatever it is, the leases of running work are worth another try.
                _log.exception("leases_not_renewed")
            until_next = 0.0
            await _happens(self._ended, within=self._pause)

    async def _beat(self, extend: Callable[[Sequence[Claim[Any]]], Any]) -> None:
        held = self._held()
        if not held:
            return
        lost = await extend(held)
        if lost:
            self._home.call_soon_threadsafe(self._lost, lost)


@asynccontextmanager
async def _answering(within: float) -> AsyncGenerator[None]:
    limit = asyncio.timeout(within)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise StoreUnreachable(f"the store did not answer within {within:g} s") from error


async def _happens(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True


class _Thread:
    """A thread with a loop, started by the first who needs it and ended with the last."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self) -> asyncio.AbstractEventLoop:
        with self._changing:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run, args=[self._loop], name="lease-keeper", daemon=True
                ).start()
            self._users += 1
            return self._loop

    def leave(self) -> None:
        with self._changing:
            self._users -= 1
            if self._users == 0 and self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


_thread = _Thread()


def _forget_thread() -> None:
    # A forked process has the parent's memory, but none of its threads.
    global _thread
    _thread = _Thread()


os.register_at_fork(after_in_child=_forget_thread)
