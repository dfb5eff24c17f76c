"""Reconnecting: backoff while the store cannot be reached."""

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from waystation.core.backoff import Backoff, Dice, Growth
from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import START_THE_STORE, StoreBusy, StoreUnreachable
from waystation.core.telemetry.logs import Outage, get_logger

T = TypeVar("T")
_log = get_logger(__name__)

# Half of every pause is left to chance, so that a fleet does not come back all at once.
PAUSES = Backoff(Growth.EXPONENTIAL, delay_ms=50, jitter=0.5, cap_ms=3000)


class Reconnect:
    """The pauses of one loop: longer while the store stays away, short again once it answers."""

    def __init__(self, *, clock: Clock | None = None, dice: Dice | None = None) -> None:
        self._clock = clock or SystemClock()
        self._dice = dice or random.Random()
        self.failures = 0

    async def pause(self) -> None:
        """Wait before the next try."""
        self.failures += 1
        pause_ms = PAUSES.pause_ms(self.failures, self._dice)
        await self._clock.sleep(pause_ms / 1000)

    def answered(self) -> None:
        """Start over with short pauses."""
        self.failures = 0


async def reconnecting(step: Callable[[], Awaitable[T]]) -> T:
    """Repeat until the store answers; only for a step that does no harm when it happens twice."""
    reconnect = Reconnect()
    while True:
        try:
            return await step()
        except (StoreUnreachable, StoreBusy) as error:
            if error.for_good:
                raise
            await reconnect.pause()


async def waiting(
    step: Callable[[], Awaitable[T]],
    *,
    at_most_s: float,
    clock: Clock | None = None,
) -> T:
    """Repeat a step while the store is away or busy, for so long; then raise what it said last."""
    clock = clock or SystemClock()
    reconnect = Reconnect(clock=clock)
    outage = Outage(_log, monotonic=clock.monotonic)
    ends = clock.monotonic() + at_most_s
    while True:
        try:
            answer = await step()
        except (StoreUnreachable, StoreBusy) as error:
            if error.for_good or clock.monotonic() >= ends:
                raise
            left_ms = round((ends - clock.monotonic()) * 1000)
            hint = "it is tried again"
            if isinstance(error, StoreUnreachable):
                hint += f"; {START_THE_STORE}"
            outage.goes_on(error, limit_ms=left_ms, hint=hint)
            await reconnect.pause()
        else:
            outage.is_over()
            return answer
