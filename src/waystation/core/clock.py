"""Clocks: the time of day, and sleeping; the system's, the server's, or one turned by a test."""

import asyncio
import heapq
import itertools
import time
from typing import Protocol


class Clock(Protocol):
    """Time as a parameter, so that tests can turn it by hand."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


class HandClock:
    """A clock that stands still until a test advances it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been turned that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Turn the clock, waking sleepers in the order of their alarms."""
        until = self._elapsed + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._elapsed, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await _settle()
        self._elapsed = until


async def _settle() -> None:
    # Whoever was woken may wake others or go back to sleep before time moves on.
    for _ in range(10):
        await asyncio.sleep(0)


SERVER_TIME = ""
"""A script's `now`: the server's clock at the moment the script runs."""


def script_time(clock: Clock | None) -> int | str:
    """A script's `now`; only tests have a clock."""
    return clock.now_ms() if clock else SERVER_TIME
