"""Services: a process that runs workers and duties until a signal asks it to stop."""

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from waystation.core.runtime.signals import calling_on_signals

EXIT_CODE = 70
"""What a supervisor sees: an internal fault, worth a restart."""


class Runs(Protocol):
    """Whatever goes on until it is asked to stop."""

    async def run(self) -> None:
        """Go on until asked to stop."""
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


def _leave() -> None:
    faulthandler.dump_traceback(file=sys.stderr)
    os._exit(EXIT_CODE)


class Watchdog:
    """While entered, the loop must turn at least once every `patience_s` seconds.

    A worker whose loop hangs looks alive to everybody: its process runs and its leases may even be
    renewed. Ending it is the only honest report, and its work is recovered by others.
    """

    def __init__(self, patience_s: float, *, leave: Callable[[], None] = _leave) -> None:
        self._patience_s = patience_s
        self._leave = leave
        self._turned = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    async def __aenter__(self) -> "Watchdog":
        self._ticking = asyncio.create_task(self._tick())
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        self._ticking.cancel()

    @property
    def lag_s(self) -> float:
        """How long ago the loop last turned."""
        return time.monotonic() - self._turned

    async def _tick(self) -> None:
        while True:
            self._turned = time.monotonic()
            await asyncio.sleep(self._patience_s / 10)

    def _watch(self) -> None:
        looked = time.monotonic()
        while not self._over.wait(self._patience_s / 10):
            slept, looked = time.monotonic() - looked, time.monotonic()
            if slept > self._patience_s / 2:
                # The whole process stood still, as after SIGSTOP or in a paused machine: the loop
                # gets its time to turn from now on.
                self._turned = looked
            if self.lag_s > self._patience_s:
                print(
                    f"waystation: the event loop has not turned for {self.lag_s:.0f} s, leaving",
                    file=sys.stderr,
                    flush=True,
                )
                self._leave()
                return
