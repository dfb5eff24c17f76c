"""How long a handler may take, counted from the moment in which its function begins.

A function in a thread or a process begins later than its job: a process has to be started, and
its modules imported. What has not begun must not fail for having taken too long.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from typing import Any


class TimeLimit:
    """Cancels what it encloses when the time is up, as `asyncio.timeout`; None means never."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._scope = asyncio.timeout(limit_s)

    async def __aenter__(self) -> "TimeLimit":
        self._outer = _limits.set((*_limits.get(), self))
        await self._scope.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        _limits.reset(self._outer)
        await self._scope.__aexit__(*raised)

    def expired(self) -> bool:
        """Whether the time is up."""
        return self._scope.expired()

    def hold(self) -> None:
        """Do not count until `begin`."""
        if not self._scope.expired():
            self._scope.reschedule(None)

    def begin(self) -> None:
        """Count from now on, unless it is over."""
        if self._limit_s is not None:
            with contextlib.suppress(RuntimeError):
                self._scope.reschedule(asyncio.get_running_loop().time() + self._limit_s)


_limits: ContextVar[tuple[TimeLimit, ...]] = ContextVar("limits", default=())
"""Those that enclose the code that asks, the outermost first."""


@contextlib.asynccontextmanager
async def in_place_of_others(limit_s: float) -> AsyncGenerator[None]:
    """Limit what it encloses in the place of the limits around it, which count from its end on."""
    outer = _limits.get()
    for each in outer:
        each.hold()
    around = _limits.set(())
    try:
        async with TimeLimit(limit_s):
            yield
    finally:
        _limits.reset(around)
        for each in outer:
            each.begin()


def held_until_begun() -> Callable[[], None]:
    """Hold the limits around whoever calls; what is returned begins them, from any thread."""
    loop = asyncio.get_running_loop()
    limits = _limits.get()
    for each in limits:
        each.hold()

    def begin() -> None:
        for each in limits:
            each.begin()

    def begun() -> None:
        if limits:
            # The loop is closed when the worker has ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(begin)

    return begun
