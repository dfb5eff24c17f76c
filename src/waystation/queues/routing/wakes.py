"""Waiting for work: for a wake-up that concerns us, and for the instants we know of."""

import asyncio
import contextlib
import time
from typing import Any

from waystation.core.store import faults
from waystation.core.store.connection import Store

from .keys import RoutingKeys
from .scripts import Settlement

LONGEST_BLOCK_S = 10.0
"""Longer blocks would hide a connection that has died."""
POLL_S = 1.0
"""Jobs that other clients put into the list with plain commands wake nobody; this finds them."""
LEAST_PAUSE_S = 0.01
"""Between two looks of a worker that wakes for jobs that others are quicker to take."""


class Wakes:
    """One worker's ear at the stream of wake-ups."""

    def __init__(self, store: Store, keys: RoutingKeys, types: tuple[str, ...]) -> None:
        self._store = store
        self._redis: Any = None
        self._key = keys.wake
        self._types = {type.encode() for type in types}
        self._heard = "0-0"
        self._until: float | None = None

    def expect(self, settlement: Settlement) -> None:
        """Note up to where the last look has heard everything, and when there may be more."""
        self._heard = settlement.woken
        pauses: list[float] = []
        if settlement.limited_ms:
            pauses.append(settlement.limited_ms / 1000)
        if settlement.due_in_ms is not None:
            pauses.append(settlement.due_in_ms / 1000)
        self._until = time.monotonic() + min(pauses) if pauses else None

    async def wait(self, at_most: float) -> None:
        """Return at a wake-up for one of our types, at a known instant, or after that long."""
        ends = time.monotonic() + min(at_most, POLL_S)
        if self._until is not None:
            ends = min(ends, self._until)
        await asyncio.sleep(LEAST_PAUSE_S)
        while (left := ends - time.monotonic()) > 0:
            if left < 0.1:
                # The server ends a blocking call up to a tenth of a second late.
                await asyncio.sleep(left)
            elif await self._hears(left):
                return

    async def _hears(self, seconds: float) -> bool:
        if self._redis is None:
            self._redis = self._store.blocking(LONGEST_BLOCK_S)
        blocked_ms = max(int((seconds - 0.1) * 1000), 1)
        with faults.told():
            found: Any = await self._redis.execute_command(
                "XREAD", "COUNT", 100, "BLOCK", blocked_ms, "STREAMS", self._key, self._heard
            )
        if not found:
            return False
        # One stream was asked, so there is one: its name, and its entries as id and fields.
        entries: list[tuple[bytes, dict[bytes, bytes]]] = found[0][1]
        self._heard = entries[-1][0].decode()
        return any(self._concerns(fields.get(b"queue", b"")) for _, fields in entries)

    def _concerns(self, queue: bytes) -> bool:
        return not queue or not self._types or queue in self._types

    async def close(self) -> None:
        """Stop listening."""
        if self._redis is not None:
            with contextlib.suppress(*faults.FAULTS):
                await self._redis.aclose()
