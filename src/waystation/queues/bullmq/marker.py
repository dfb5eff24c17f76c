"""Waiting for work: at the marker that producers touch, and for the instants we know of.

The server ends a blocking call up to a tenth of a second late, so what is due at a known instant
is not left to it: a timer of our own runs beside the call.
"""

import asyncio
import base64
import contextlib

import msgspec

from waystation.core.clock import Clock
from waystation.core.store import faults
from waystation.core.store.connection import Store

from .keys import QueueKeys

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

    async def open(self) -> None:
        """Connect, so that dashboards see the worker before it has to wait."""
        with faults.told():
            await self._client.execute_command("PING")

    def expect(self, due_in_ms: float) -> None:
        """A delayed job will be due after that many milliseconds."""
        due_at = self._clock.monotonic() + due_in_ms / 1000
        self._due_at = due_at if self._due_at is None else min(self._due_at, due_at)

    async def wait(self, at_most: float) -> None:
        """Return when the marker is touched, when a delayed job is due, or after that long."""
        if self._blocked is None:
            self._blocked = asyncio.create_task(self._block(min(at_most, LONGEST_BLOCK_S)))
        timer = asyncio.create_task(self._clock.sleep(self._pause(at_most)))
        try:
            await asyncio.wait((self._blocked, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        if self._blocked.done():
            blocked, self._blocked = self._blocked, None
            if (score := blocked.result()) and (left := score - self._clock.now_ms()) > 0:
                # A due time, and popping it has removed it: from here on it is ours to keep.
                self.expect(left)
                await self.wait(at_most)
        self._forget_what_is_due()

    async def close(self) -> None:
        """Leave the place."""
        if self._blocked:
            self._blocked.cancel()
            with contextlib.suppress(BaseException):
                await self._blocked
        await self._store.close()

    async def _block(self, seconds: float) -> float | None:
        with faults.told():
            popped = await self._client.execute_command("BZPOPMIN", self._key, seconds)
        return float(popped[2]) if popped else None

    def _pause(self, at_most: float) -> float:
        if self._due_at is None:
            return at_most
        return min(at_most, max(0.0, self._due_at - self._clock.monotonic()))

    def _forget_what_is_due(self) -> None:
        if self._due_at is not None and self._due_at <= self._clock.monotonic():
            self._due_at = None
