"""A process that runs until told to stop: signals, duties and workers under one roof."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from waystation.core.runtime.signals import calling_on_signals
from waystation.core.runtime.watch import Watchdog


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

    async with Watchdog(watchdog_s):
        with calling_on_signals(stop):
            try:
                async with asyncio.TaskGroup() as group:
                    for each in running:
                        group.create_task(each.run())
            except BaseExceptionGroup as several:
                raise several.exceptions[0] from None


async def until_asked_to_stop() -> None:
    """Return at the first SIGTERM or SIGINT; a second one ends the process at once."""
    asked = asyncio.Event()
    with calling_on_signals(asked.set):
        await asked.wait()
