"""What shows that the workers of a process are alive: one connection for all of them.

It belongs to the loop on which leases are renewed, so that no handler can be in its way.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import end
from waystation.core.shared import Shared
from waystation.core.store.connection import Store
from waystation.core.store.script import Client
from waystation.routing import registry
from waystation.routing.hub import Place
from waystation.routing.keys import RoutingKeys
from waystation.routing.registry import BEAT_S, Profile
from waystation.routing.scripts import SERVER_TIME

PER_CALL = 500
"""Heartbeats in one call."""


class Lifeline:
    """The heartbeats of all workers at one place, and the client that renews their leases."""

    def __init__(self, place: Place) -> None:
        store, namespace, self._clock = place
        self._keys = RoutingKeys(namespace)
        self._store = Store(store.address, store.options)
        self._hearts: dict[object, Profile] = {}
        self._beating = asyncio.create_task(Loop(self._beat, every_s=BEAT_S, jitter=0).run())

    @property
    def client(self) -> Client:
        """The way to the store."""
        return self._store.hot

    @contextmanager
    def beating(self, profile: Profile) -> Generator[None]:
        """Let a worker's heart beat while inside."""
        heart = object()
        self._hearts[heart] = profile
        try:
            yield
        finally:
            del self._hearts[heart]

    async def close(self) -> None:
        """Hang up."""
        await end([self._beating])
        await self._store.close()

    async def _beat(self) -> None:
        profiles = list(self._hearts.values())
        now = self._clock.now_ms() if self._clock else SERVER_TIME
        for first in range(0, len(profiles), PER_CALL):
            some = profiles[first : first + PER_CALL]
            await registry.beat(self.client, self._keys, *some, now=now)


async def _made(place: Place) -> Lifeline:
    return Lifeline(place)


lifelines = Shared(_made, Lifeline.close)
"""One for each place, for as long as a worker there renews its leases."""
