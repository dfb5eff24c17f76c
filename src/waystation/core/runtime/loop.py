"""Loops: a duty that runs at an interval, with jitter, until it is cancelled."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidOption, StoreError
from waystation.core.runtime.tasks import leave_if_cancelled
from waystation.core.telemetry.logs import Reminders, describe, get_logger

_log = get_logger(__name__)


class Loop:
    """Runs one pass of a duty again and again.

    The duty is a plain coroutine function; tests call it directly. A pass that fails is reported
    and tried again at the next turn: a duty that stops for good is worse than one that stumbles.
    """

    def __init__(
        self,
        duty: Callable[[], Awaitable[Any]],
        *,
        every_s: float,
        jitter: float = 0.25,
        clock: Clock | None = None,
        dice: Callable[[float, float], float] = random.uniform,
    ) -> None:
        if not every_s > 0:
            raise InvalidOption(f"every_s must be more than 0, got {every_s}")
        if not 0 <= jitter < 1:
            raise InvalidOption(f"jitter must be from 0 to below 1, got {jitter}")
        self._duty = duty
        self._every_s = every_s
        self._jitter = jitter
        self._clock = clock or SystemClock()
        self._dice = dice
        self._warnings = Reminders(self._clock.monotonic)

    async def run(self) -> None:
        """Go round until cancelled; the first pass is made at once."""
        while True:
            await self.turn()
            # A fleet that was started together must not do its rounds together.
            spread = self._dice(1 - self._jitter, 1 + self._jitter)
            await self._clock.sleep(self._every_s * spread)

    async def turn(self) -> bool:
        """Make one pass; False when it failed."""
        try:
            await self._duty()
            leave_if_cancelled()
        except StoreError as error:
            # A client that is cancelled while it connects may report a lost connection instead.
            leave_if_cancelled()
            if self._warnings.is_due():
                _log.warning("duty_delayed", duty=self.name, **describe(error))
            return False
        except (Exception, asyncio.CancelledError):
            # What the duty waited for may have been cancelled, a strategy of the user's among it.
            leave_if_cancelled()
            _log.exception("duty_failed", duty=self.name)
            return False
        self._warnings.reset()
        return True

    @property
    def name(self) -> str:
        """The duty's name, for logs and metrics."""
        return getattr(self._duty, "__name__", type(self._duty).__name__)
