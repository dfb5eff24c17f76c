"""Waiting for work, on the side of one worker."""

import asyncio
import time

from waystation.routing.redis.replies import Settlement
from waystation.routing.registry import Profile
from waystation.routing.source.hub import Hub, Instant, Place, WakeUp, hubs, instant

LEAST_PAUSE_S = 0.01
"""Between two looks of a worker that wakes for jobs that others are quicker to take."""


class Wakes:
    """What one worker waits with: it listens through the hub of its store and namespace."""

    def __init__(self, place: Place, profile: Profile) -> None:
        self.server = profile.server
        self.profile = profile.matched()
        self.heard: Instant = (0, 0)
        """The last wake-up that the worker's own look for jobs knew of."""
        self._types = {type.encode() for type in profile.types}
        self._place = place
        self._hub: Hub | None = None
        self._has_room = True
        self._woken: asyncio.Future[None] | None = None
        self._errand: WakeUp | None = None
        self._pauses_ms = (0, 0)
        """How long a limit lasts and a delay does, as the last look for jobs knew them."""

    @property
    def is_idle(self) -> bool:
        """Whether the worker waits, and has room for a job."""
        return self._has_room and self._woken is not None and not self._woken.done()

    def handles(self, queue: bytes) -> bool:
        """Whether the worker has a handler for a type."""
        return not self._types or queue in self._types

    def answered(self, settlement: Settlement, *, full: bool) -> None:
        """Note what a look for jobs has brought: as many as there is room for, or all there are."""
        had_room, self._has_room = self._has_room, not full
        if full:
            self.pass_on()
            return
        self.heard = instant(settlement.woken)
        if self._errand and self._errand.id <= self.heard:
            self._errand = None
        self._pauses_ms = (settlement.limited_ms, settlement.due_in_ms or 0)
        if self._hub:
            self._hub.expect(*self._pauses_ms)
            if self.is_idle and not had_room:
                # It has waited all the time, but was not to be woken.
                self._hub.add(self)

    def pass_on(self) -> None:
        """Leave the wake-up that this worker was given to another one."""
        errand, self._errand = self._errand, None
        if errand and self._hub:
            self._hub.hand_out(errand)

    async def wait(self, at_most: float) -> None:
        """Return when there is something to do, or nobody has looked for that many seconds."""
        hub = self._hub or await self._joined()
        await asyncio.sleep(LEAST_PAUSE_S)
        began = time.monotonic()
        self._woken = asyncio.get_running_loop().create_future()
        hub.add(self)
        try:
            while (left := max(began, hub.looked) + at_most - time.monotonic()) > 0:
                done, _ = await asyncio.wait([self._woken], timeout=left)
                if done:
                    return self._woken.result()
        finally:
            hub.remove(self)
            self._woken = None

    def wake(self, wake_up: WakeUp) -> None:
        """End the wait for the sake of this wake-up."""
        if self._woken is not None:
            self._errand = wake_up
            self._woken.set_result(None)

    def fail(self, error: Exception) -> None:
        """End the wait with an error."""
        if self._woken and not self._woken.done():
            self._woken.set_exception(error)

    async def close(self) -> None:
        """Stop listening."""
        self.pass_on()
        if self._hub:
            hub, self._hub = self._hub, None
            hub.users -= 1
            await hubs.give_back(self._place)

    async def _joined(self) -> Hub:
        self._hub = await hubs.take(self._place)
        self._hub.users += 1
        self._hub.expect(*self._pauses_ms)
        return self._hub
