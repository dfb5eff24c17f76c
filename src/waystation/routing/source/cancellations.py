"""Cancelled jobs: the workers of a process that run them are told at once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeAlias

from waystation.core.line.event_trail import newest_id, read_on
from waystation.core.runtime.tasks import end
from waystation.core.runtime.worker import Worker
from waystation.core.shared import Shared
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import reconnecting
from waystation.core.store.script import texts
from waystation.routing.job import Job
from waystation.routing.redis.keys import RoutingKeys

Place: TypeAlias = tuple[Store, str]
"""The store that the workers use, and their namespace."""

_BLOCK_S = 10.0
"""A longer block would hide a connection that has died."""
_PAGE = 1000


class Cancellations:
    """The one listener of all workers at one place."""

    def __init__(self, place: Place) -> None:
        self._store, namespace = place
        self._keys = RoutingKeys(namespace)
        self._workers: set[Worker[Job]] = set()
        self._heard = ""
        self._listening = asyncio.create_task(self._listen())

    @asynccontextmanager
    async def heeded_by(self, worker: Worker[Job]) -> AsyncGenerator[None]:
        """Let a worker stop the handlers of cancelled jobs while inside."""
        self._workers.add(worker)
        try:
            yield
        finally:
            self._workers.discard(worker)

    async def close(self) -> None:
        """Stop listening."""
        await end([self._listening])

    async def _listen(self) -> None:
        while True:
            await reconnecting(self._read_on)

    async def _read_on(self) -> None:
        # What was cancelled before anybody listened here is not held here.
        self._heard = self._heard or await newest_id(self._store.hot, self._keys.stopped)
        client = self._store.blocking(_BLOCK_S)
        try:
            while True:
                found = await read_on(
                    client, self._keys.stopped, self._heard, most=_PAGE, block_s=_BLOCK_S
                )
                for at, fields in found:
                    self._heard = at.decode()
                    self._stop(*texts([fields.get(b"id", b""), fields.get(b"token", b"")]))
        finally:
            await client.aclose()

    def _stop(self, id: str, token: str) -> None:
        for worker in self._workers:
            held = [claim for claim in worker.held if claim.id == id]
            # Cancelled, added again and claimed again by the same worker: the renewal tells it.
            if len(held) == 1 and held[0].token == token:
                worker.cancel(id)


async def heed_cancellations(store: Store, namespace: str, worker: Worker[Job]) -> None:
    """Have a worker stop what is cancelled while it runs, until cancelled itself."""
    async with _listeners.using((store, namespace)) as listener, listener.heeded_by(worker):
        await asyncio.Event().wait()


async def _made(place: Place) -> Cancellations:
    return Cancellations(place)


_listeners = Shared(_made, Cancellations.close)
