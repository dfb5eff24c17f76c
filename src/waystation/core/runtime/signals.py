"""SIGTERM and SIGINT: the first one asks for the end, the second one is the end."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator
from typing import Any

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
