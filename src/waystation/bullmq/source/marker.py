"""Waiting for work: at the marker that producers touch, and for the instants we know of.

The server ends a blocking call up to a tenth of a second late, so what is due at a known instant
is not left to it: a timer of our own runs beside the call.
"""

import asyncio
import base64
import contextlib

import msgspec

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.clock import Clock
from waystation.core.store import faults
from waystation.core.store.connection import Store

LONGEST_BLOCK_S = 10.0
"""Longer blocks would hide a connection that has died."""


def client_name(keys: QueueKeys, suffix: str = "") -> str:
    """The name under which dashboards look for a queue's workers and listeners."""
    return f"{keys.prefix}:{base64.b64encode(keys.name.encode()).decode()}{suffix}"


class Marker:
    """One worker's place at the marker."""

    def __init__(self, store: Store, keys: QueueKeys, *, worker: str, clock: Clock) -> None:
        options = msgspec.structs.replace(
            store.options,
            client_name=client_name(keys, f":w:{worker}"),
            call_timeout=LONGEST_BLOCK_S + store.options.call_timeout,
        )
        self._store = Store(store.address, options)
        self._client = self._store.hot
        self._key = keys.marker
        self._clock = clock
        self._blocked: asyncio.Task[float | None] | None = None
        self._due_at: float | None = None
        """When a job is due that we know of, on the clock that is never set."""
        self._due_sooner = asyncio.Event()

    async def open(self) -> None:
        """Connect, so that dashboards see the worker before it has to wait."""
        with faults.translated():
            await self._client.execute_command("PING")

    def expect(self, due_in_ms: float) -> None:
        """There will be something to look for after that many milliseconds."""
        due_at = self._clock.monotonic() + due_in_ms / 1000
        if self._due_at is None or due_at < self._due_at:
            self._due_at = due_at
            self._due_sooner.set()

    def forget_what_is_due(self) -> None:
        """Whoever has waited until now looks for it anyway."""
        if self._is_due():
            self._due_at = None

    async def wait(self, at_most: float) -> None:
        """Return when the marker is touched, when something expected is due, or after that long."""
        until = self._clock.monotonic() + at_most
        while (left := until - self._clock.monotonic()) > 0:
            if await self._touched(left) or self._is_due():
                break
        self.forget_what_is_due()

    async def _touched(self, at_most: float) -> bool:
        """Whether the call at the marker has ended; else time is up, or something due sooner."""
        self._due_sooner.clear()
        if self._blocked is None:
            self._blocked = asyncio.create_task(self._block(min(at_most, LONGEST_BLOCK_S)))
        timer = asyncio.create_task(self._clock.sleep(self._pause(at_most)))
        sooner = asyncio.create_task(self._due_sooner.wait())
        try:
            await asyncio.wait((self._blocked, timer, sooner), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            sooner.cancel()
        if not self._blocked.done():
            return False
        blocked, self._blocked = self._blocked, None
        if (score := blocked.result()) and (left := score - self._clock.now_ms()) > 0:
            # A due time, and popping it has removed it: from here on it is ours to keep.
            self.expect(left)
            return False
        return True

    async def close(self) -> None:
        """Leave the place."""
        if self._blocked:
            self._blocked.cancel()
            with contextlib.suppress(BaseException):
                await self._blocked
        await self._store.close()

    async def _block(self, seconds: float) -> float | None:
        with faults.translated():
            popped = await self._client.execute_command("BZPOPMIN", self._key, seconds)
        return float(popped[2]) if popped else None

    def _pause(self, at_most: float) -> float:
        if self._due_at is None:
            return at_most
        return min(at_most, max(0.0, self._due_at - self._clock.monotonic()))

    def _is_due(self) -> bool:
        return self._due_at is not None and self._due_at <= self._clock.monotonic()
