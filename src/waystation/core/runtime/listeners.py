"""Listeners: functions of the user's that a worker calls, and that cannot harm it."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from waystation.core.errors import InvalidOption
from waystation.core.runtime.tasks import end, go_on, is_from_a_signal
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

Callback = Callable[..., Any]

_FINISH_WITHIN_S = 5.0
"""How long a worker that ends waits for what its listeners have begun."""


class Calls:
    """Calls listeners one after the other, reports what they raise, awaits what they return."""

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._report = report
        self._begun: deque[tuple[str, Awaitable[Any]]] = deque()
        self._awaiting: asyncio.Task[None] | None = None
        self._has_closer = asyncio.Event()
        self._given_up = False

    def call(self, event: str, callback: Callback, *what: Any) -> None:
        """Call a listener of an event; a coroutine goes on behind those that were begun before."""
        try:
            answer = callback(*what)
        except BaseException as error:
            self._failed(event, error)
            return
        if answer is not None and inspect.isawaitable(answer):
            self._begun.append((event, answer))
            if self._awaiting is None:
                self._awaiting = asyncio.create_task(self._await_begun())

    async def finish(self) -> None:
        """Wait for what was begun, for a while, and give up the rest."""
        task = self._awaiting
        if task is None:
            return
        closer = asyncio.create_task(self._has_closer.wait())
        await asyncio.wait(
            [task, closer], timeout=_FINISH_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
        )
        if not (task.done() or closer.done()):
            _log.warning("listeners_given_up", count=len(self._begun) + 1)
            self._given_up = True
            await end([task])
        closer.cancel()

    def let_closer_wait(self) -> None:
        """Let `finish` wait no more: a listener it waits for waits for the end of the worker."""
        self._has_closer.set()

    async def _await_begun(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        _calling.set(self)
        try:
            while self._begun:
                event, answer = self._begun.popleft()
                try:
                    await answer
                except BaseException as error:
                    if isinstance(error, asyncio.CancelledError) and self._given_up:
                        raise
                    self._failed(event, error)
                if task.cancelling():
                    await go_on(task)
        finally:
            self._awaiting = None
            for _, answer in self._begun:
                if inspect.iscoroutine(answer):
                    answer.close()

    def _failed(self, event: str, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt) and is_from_a_signal(error):
            raise error
        self._report(event, error)


_calling: ContextVar[Calls | None] = ContextVar("calling", default=None)


def closes_worker() -> None:
    """Note that a worker is being closed: if by its own listener, neither waits for the other."""
    if calls := _calling.get():
        calls.let_closer_wait()


class Emitter:
    """Callbacks by event, called in the order in which they were added.

    What a callback raises is logged and passed to the callbacks of `error`; what those raise is
    only logged.
    """

    def __init__(self, events: Sequence[str]) -> None:
        self._events = events
        self._callbacks: dict[str, list[tuple[Callback, bool]]] = {}
        self.calls = Calls(self.failed)

    def on(self, event: str, callback: Callback, *, once: bool = False) -> None:
        """Call back whenever something happens, or the next time only."""
        self._check(event)
        if not callable(callback):
            raise InvalidOption(f"a listener must be a function, got {callback!r}")
        self._callbacks.setdefault(event, []).append((callback, once))

    def off(self, event: str, callback: Callback) -> bool:
        """Call back no more, or once less where it was added twice; False if it was not there."""
        self._check(event)
        added = self._callbacks.get(event, [])
        for place in reversed(range(len(added))):
            if added[place][0] == callback:
                del added[place]
                return True
        return False

    def is_heard(self, event: str) -> bool:
        """Whether anybody listens to this."""
        return bool(self._callbacks.get(event))

    def emit(self, event: str, *what: Any) -> None:
        """Call the callbacks for what has happened."""
        added = self._callbacks.get(event)
        if not added:
            return
        # Copied, because a callback may add or take away others.
        for each in tuple(added):
            callback, once = each
            if once:
                if each not in added:
                    continue
                added.remove(each)
            self.calls.call(event, callback, *what)

    def failed(self, event: str, error: BaseException) -> None:
        """Report what a listener of an event has raised."""
        _log.error("listener_failed", error, listener=event)
        if event != "error":
            self.emit("error", error)

    def _check(self, event: str) -> None:
        if event not in self._events:
            raise InvalidOption(f"an event is one of {', '.join(self._events)}, got {event!r}")
