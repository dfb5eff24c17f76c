"""The heartbeats of the workers of this process, which show that they are alive."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from waystation.core.line.server_time import SERVER_TIME
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import end
from waystation.core.shared import Shared
from waystation.core.store.script import Client
from waystation.routing import registry
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.registry import Profile
from waystation.routing.source.hub import Place

BEAT_S = 10.0
PER_CALL = 500
"""Heartbeats in one call."""
_LAST_BEAT_S = 1.0
"""How long a worker that leaves waits for a heartbeat under way."""


class Heartbeats:
    """The heartbeats of all workers at one place, and the client that renews their leases."""

    def __init__(self, place: Place) -> None:
        store, namespace, self._clock = place
        self._keys = RoutingKeys(namespace)
        self._store = store.clone()
        self._hearts: dict[object, Profile] = {}
        self._calling = asyncio.Lock()
        self._beating = asyncio.create_task(Loop(self._beat, every_s=BEAT_S, jitter=0).run())

    @property
    def client(self) -> Client:
        """The way to the store."""
        return self._store.hot

    @asynccontextmanager
    async def beating(self, profile: Profile) -> AsyncGenerator[None]:
        """Let a worker's heart beat while inside."""
        heart = object()
        self._hearts[heart] = profile
        try:
            yield
        finally:
            del self._hearts[heart]
            # A call under way still names it, and would register it again after it has left.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_BEAT_S), self._calling:
                    pass

    async def close(self) -> None:
        """Hang up."""
        await end([self._beating])
        await self._store.close()

    async def _beat(self) -> None:
        now = self._clock.now_ms() if self._clock else SERVER_TIME
        async with self._calling:
            profiles = list(self._hearts.values())
            for first in range(0, len(profiles), PER_CALL):
                some = profiles[first : first + PER_CALL]
                await registry.beat(self.client, self._keys, *some, now=now)


async def _made(place: Place) -> Heartbeats:
    return Heartbeats(place)


heartbeats = Shared(_made, Heartbeats.close)
"""One for each place, for as long as a worker there renews its leases."""
