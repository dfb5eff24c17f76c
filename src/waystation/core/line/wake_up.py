"""Waiting for work: at the key that producers touch, and for the instants that are known.

The server ends a blocking call up to a tenth of a second late, so what is due at a known instant
is not left to it: a timer of our own runs as well, while something is.
"""

import asyncio

from waystation.core.clock import Clock, SystemClock
from waystation.core.runtime.tasks import end
from waystation.core.store.commands import ask
from waystation.core.store.connection import Store

LONGEST_BLOCK_S = 5.0
"""Longer blocks would hide a connection that has died."""


class WakeUp:
    """One worker's wait at a key, or at several, with a connection of its own."""

    def __init__(
        self,
        store: Store,
        command: str,
        *keys: str,
        client_name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Wait by `BLPOP` at lists, or by `BZPOPMIN` at sorted sets whose scores are instants."""
        self._store = store.clone(
            client_name=client_name or store.options.client_name,
            call_timeout=LONGEST_BLOCK_S + store.options.call_timeout,
        )
        self._client = self._store.hot
        self._command = command
        self._keys = keys
        self._clock = clock or SystemClock()
        self._blocked: asyncio.Task[float | None] | None = None
        self._due_at: float | None = None
        """The earliest known instant at which a job is due, on the monotonic clock."""
        self._due_sooner: asyncio.Future[None] | None = None
        """Ends the wait that is under way, which knew of nothing so early."""

    async def open(self) -> None:
        """Connect, so that dashboards see the worker before it has to wait."""
        await ask(self._client, "PING")

    def expect(self, due_in_ms: float) -> None:
        """End the wait, also one that is under way, after that many milliseconds."""
        due_at = self._clock.monotonic() + due_in_ms / 1000
        if self._due_at is None or due_at < self._due_at:
            self._due_at = due_at
            if self._due_sooner and not self._due_sooner.done():
                self._due_sooner.set_result(None)

    def forget_what_is_due(self) -> None:
        """Forget an instant that has passed: the worker looks for jobs now anyway."""
        if self._is_due():
            self._due_at = None

    async def wait(self, at_most: float) -> None:
        """Return when the key is touched, when something expected is due, or after that long."""
        until = self._clock.monotonic() + at_most
        while (left := until - self._clock.monotonic()) > 0:
            if await self._touched(left) or self._is_due():
                break
        self.forget_what_is_due()

    async def close(self) -> None:
        """Stop waiting and disconnect."""
        if self._blocked:
            await end([self._blocked])
            if not self._blocked.cancelled() and self._blocked.done():
                # Whoever has stopped waiting is not interested in how the wait has failed.
                self._blocked.exception()
        await self._store.close()

    async def _touched(self, at_most: float) -> bool:
        """True when the blocking call has ended; else something is due sooner."""
        if self._blocked is None:
            # It ends by itself when time is up, so that most waits need no timer.
            self._blocked = asyncio.create_task(self._block(min(at_most, LONGEST_BLOCK_S)))
        self._due_sooner = asyncio.get_running_loop().create_future()
        ends = [self._blocked, self._due_sooner]
        if self._due_at is not None:
            left = max(0.0, self._due_at - self._clock.monotonic())
            ends.append(asyncio.create_task(self._clock.sleep(left)))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends[1:]:
                each.cancel()
        if not self._blocked.done():
            return False
        blocked, self._blocked = self._blocked, None
        if (score := blocked.result()) and (left := score - self._clock.now_ms()) > 0:
            # A due time, and popping it has removed it: from here on it is ours to keep.
            self.expect(left)
            return False
        return True

    async def _block(self, seconds: float) -> float | None:
        popped = await ask(self._client, self._command, *self._keys, seconds)
        return float(popped[2]) if popped and len(popped) > 2 else None

    def _is_due(self) -> bool:
        return self._due_at is not None and self._due_at <= self._clock.monotonic()
