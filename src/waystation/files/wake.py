"""Waiting for work: at the list that producers touch, and for the instants we know of."""

import asyncio

import msgspec

from waystation.core.runtime.tasks import end
from waystation.core.store import faults
from waystation.core.store.connection import Store

LONGEST_BLOCK_S = 5.0
"""Longer blocks would hide a connection that has died."""


class Wake:
    """One worker's place at the list that says there is work."""

    def __init__(self, store: Store, key: str) -> None:
        options = msgspec.structs.replace(store.options, max_connections=1)
        self._store = Store(store.address, options)
        self._redis = self._store.blocking(LONGEST_BLOCK_S)
        self._key = key
        self._blocked: asyncio.Task[None] | None = None
        self._hurried: asyncio.Future[None] | None = None

    async def wait(self, at_most: float) -> bool:
        """Return when there is work, or after that many seconds; True when `hurry` ended it."""
        if self._blocked is None:
            # The server ends a call up to a tenth of a second late, so the timer is our own.
            self._blocked = asyncio.create_task(self._block())
        self._hurried = hurried = asyncio.get_running_loop().create_future()
        await asyncio.wait(
            (self._blocked, hurried), timeout=at_most, return_when=asyncio.FIRST_COMPLETED
        )
        self._hurried = None
        if self._blocked.done():
            blocked, self._blocked = self._blocked, None
            blocked.result()
            return False
        return hurried.done()

    def hurry(self) -> None:
        """End the wait that is under way, because it was given too long."""
        if self._hurried and not self._hurried.done():
            self._hurried.set_result(None)

    async def close(self) -> None:
        """Leave the place."""
        if self._blocked:
            await end([self._blocked])
        await self._store.close()

    async def _block(self) -> None:
        with faults.translated():
            await self._redis.execute_command("BLPOP", self._key, LONGEST_BLOCK_S)
