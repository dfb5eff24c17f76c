"""A process that runs until told to stop: signals, duties and workers under one roof."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from waystation.core.telemetry.logs import get_logger

from .watch import Watchdog

_log = get_logger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Runs(Protocol):
    """Whatever goes on until it is told to stop."""

    async def run(self) -> None:
        """Go on until told to stop."""
        ...

    def stop(self) -> None:
        """Finish what was begun, and end."""
        ...


async def serve(running: Sequence[Runs], *, watchdog_s: float = 60.0) -> None:
    """Run all of them until a signal asks for the end, then drain.

    The first SIGTERM or SIGINT lets running work finish within its grace and hands back the rest;
    a second one ends the process at once with exit code 1.
    """

    def stop() -> None:
        for each in running:
            each.stop()

    async with Watchdog(watchdog_s), calling_on_signals(stop):
        try:
            async with asyncio.TaskGroup() as group:
                for each in running:
                    group.create_task(each.run())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None


async def until_asked_to_stop() -> None:
    """Return at the first SIGTERM or SIGINT; a second one ends the process at once."""
    asked = asyncio.Event()
    async with calling_on_signals(asked.set):
        await asked.wait()


@contextlib.asynccontextmanager
async def calling_on_signals(stop: Callable[[], None]) -> AsyncGenerator[None]:
    """Call `stop` on the first signal; end the process on the second."""
    loop = asyncio.get_running_loop()
    asked = False

    def on_signal(number: int) -> None:
        nonlocal asked
        if asked:
            _log.warning("a second signal ends the process at once")
            os._exit(1)
        asked = True
        _log.info("the worker finishes what it has begun", signal=signal.Signals(number).name)
        stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
