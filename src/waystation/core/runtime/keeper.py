"""Renewing leases on a thread of its own, where no handler can be in the way."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from waystation.core.errors import StoreError
from waystation.core.telemetry.logs import describe, get_logger

from .claim import Claim, Source

W = TypeVar("W")
_log = get_logger(__name__)


class Keeper(Generic[W]):
    """Keeps all held leases alive while it is entered.

    It owns a thread with its own loop: an `async` handler that computes for a minute blocks the
    worker's loop, and would lose every lease if the renewal ran there.
    """

    def __init__(
        self,
        source: Source[W],
        *,
        held: Callable[[], Sequence[Claim[W]]],
        lost: Callable[[Sequence[Claim[W]]], None],
        every: float,
    ) -> None:
        self._source = source
        self._held = held
        self._lost = lost
        self._every = every
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)
        self._stop: Callable[[], Any] = lambda: None
        self._stopped = False

    async def __aenter__(self) -> "Keeper[W]":
        self._home = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped = True
        self._stop()
        await asyncio.to_thread(self._thread.join, 5)

    def _run(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(ended.set)
        while not (self._stopped or ended.is_set()):
            try:
                async with self._source.keeper() as extend:
                    while not await _happens(ended, within=self._every):
                        await self._beat(extend)
                    return
            except StoreError as error:
                _log.warning("leases_not_renewed", **describe(error))
            except Exception:
                # Whatever it is, the leases of running work are worth another try.
                _log.exception("leases_not_renewed")
            await _happens(ended, within=min(self._every, 1.0))

    async def _beat(self, extend: Callable[[Sequence[Claim[Any]]], Any]) -> None:
        held = self._held()
        if not held:
            return
        lost = await extend(held)
        if lost:
            self._home.call_soon_threadsafe(self._lost, lost)


async def _happens(event: asyncio.Event, *, within: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), within)
    except TimeoutError:
        return False
    return True
