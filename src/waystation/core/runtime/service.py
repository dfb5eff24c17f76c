"""Services: what runs in a process until a signal asks it to stop; the second signal is the end."""

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_AGAIN = "a second signal ends the process at once"
_ONE_SIGNAL_S = 0.5
"""What follows sooner is the same signal, passed on by a wrapper to a process that had it."""


@contextlib.contextmanager
def calling_on_signals(stop: Callable[[], None], *, take: bool = True) -> Generator[None]:
    """Call `stop` on the first SIGTERM or SIGINT; the second one ends the process with 1.

    Several may wait for the same signal. Only the main thread gets signals, so elsewhere nothing is
    installed. Without `take` a handler that somebody else has installed is left as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    global _listening
    if _listening is None or _listening.loop is not loop:
        _listening = _Listening(loop)
    listening = _listening
    listening.add(stop, take=take)
    try:
        yield
    finally:
        listening.remove(stop)


class _Listening:
    """Who is to be stopped by a signal that comes while one loop runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._stops: list[Callable[[], None]] = []
        self._previous: dict[signal.Signals, Any] = {}
        self._asked = False
        self._asked_at = 0.0

    def add(self, stop: Callable[[], None], *, take: bool) -> None:
        self._stops.append(stop)
        for number in _SIGNALS:
            if number not in self._previous and (take or _is_free(number)):
                self._previous[number] = signal.getsignal(number)
                self.loop.add_signal_handler(number, self._on_signal, number)
        if self._asked:
            stop()

    def remove(self, stop: Callable[[], None]) -> None:
        self._stops.remove(stop)
        if self._stops:
            return
        self._asked = False
        for number, previous in self._previous.items():
            self.loop.remove_signal_handler(number)
            # Without this the loop would leave Python's own handler, whatever was there before.
            signal.signal(number, previous)
        self._previous.clear()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._asked and self.loop.time() - self._asked_at < _ONE_SIGNAL_S:
            return
        if self._asked:
            _log.warning("stop_forced", signal=number.name)
            os._exit(1)
        self._asked, self._asked_at = True, self.loop.time()
        _log.info("stop_requested", signal=number.name, hint=_AGAIN)
        for stop in [*self._stops]:
            stop()


_listening: _Listening | None = None


def _is_free(number: signal.Signals) -> bool:
    handler = signal.getsignal(number)
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    # `asyncio.run` cancels its main task on SIGINT, which would leave running work to time out.
    return getattr(getattr(handler, "func", None), "__module__", "") == "asyncio.runners"


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
