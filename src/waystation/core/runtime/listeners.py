"""Listeners: functions of the user's that a worker calls, and that cannot harm it."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from waystation.core.errors import InvalidOption
from waystation.core.runtime.tasks import end, go_on, is_from_a_signal
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

Callback = Callable[..., Any]

_FINISH_WITHIN_S = 5.0
"""How long a worker that ends waits for what its listeners have begun."""


class _Call:
    """One call of a listener that has not ended yet, and whose ends it waits for."""

    __slots__ = ("answer", "calls", "event", "waits_for")

    def __init__(self, calls: "Calls", event: str) -> None:
        self.calls = calls
        self.event = event
        self.answer: Awaitable[Any] | None = None
        self.waits_for: list[Calls] = []


# The call in which this runs, also of those tasks that a listener has started.
_calling: ContextVar[_Call | None] = ContextVar("calling", default=None)


class Calls:
    """Calls listeners one after the other, reports what they raise, awaits what they return."""

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._report = report
        self._begun: deque[_Call] = deque()
        self._awaiting: asyncio.Task[None] | None = None
        self._given_up: asyncio.Task[None] | None = None
        self._closers: list[_Call] = []
        self._closer_came = asyncio.Event()

    def call(self, event: str, callback: Callback, *what: Any) -> None:
        """Call a listener of an event; a coroutine goes on behind those that were begun before."""
        call = _Call(self, event)
        before = _calling.set(call)
        try:
            call.answer = answer = callback(*what)
        except BaseException as error:
            self._failed(event, error)
            return
        finally:
            _calling.reset(before)
        if answer is not None and inspect.isawaitable(answer):
            self._begun.append(call)
            if self._awaiting is None:
                self._awaiting = asyncio.create_task(self._await_begun())

    async def finish(self) -> None:
        """Wait for what was begun, for a while, and give up the rest.

        This belongs to the end of what they listen to: a listener that waits for that end itself is
        not waited for.
        """
        self._closer_came.clear()
        if any(call.calls.is_under_way(call) for call in self._closers):
            return
        closer = asyncio.create_task(self._closer_came.wait())
        try:
            await self._wait(closer)
        finally:
            closer.cancel()

    async def finish_after_the_end(self) -> None:
        """Wait for those as well who have waited for the end themselves."""
        await self._wait()

    async def _wait(self, *closers: "asyncio.Task[Any]") -> None:
        task = self._awaiting
        if task is None or task is self._given_up:
            return
        done, _ = await asyncio.wait(
            [task, *closers], timeout=_FINISH_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            _log.warning("listeners_given_up", count=len(self._begun))
            self._given_up = task
            await end([task])

    @contextmanager
    def awaited_by(self, call: _Call) -> Generator[bool]:
        """Note that a listener waits for the end of this; False if that would wait for itself."""
        if not self._waits_for(call.calls):
            call.waits_for.append(self)
            try:
                yield True
            finally:
                call.waits_for.remove(self)
            return
        self._closers.append(call)
        self._closer_came.set()
        try:
            yield False
        finally:
            self._closers.remove(call)

    def is_under_way(self, call: _Call) -> bool:
        """Whether this call has not ended, and whoever waits for this waits for it."""
        return call in self._begun

    def _waits_for(self, others: "Calls") -> bool:
        """Whether these are the others, or one of these calls waits for them in the end."""
        return self is others or any(
            each._waits_for(others) for call in self._begun for each in call.waits_for
        )

    async def _await_begun(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        try:
            while self._begun:
                # It stays the first until it has ended.
                call = self._begun[0]
                await self._await_answer(call, task)
                self._begun.popleft()
                if task.cancelling():
                    await go_on(task)
        finally:
            self._awaiting = None
            while self._begun:
                if inspect.iscoroutine(answer := self._begun.popleft().answer):
                    answer.close()

    async def _await_answer(self, call: _Call, task: "asyncio.Task[None]") -> None:
        assert call.answer is not None  # noqa: S101
        _calling.set(call)
        try:
            await call.answer
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and self._given_up is task:
                raise
            self._failed(call.event, error)

    def _failed(self, event: str, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt) and is_from_a_signal(error):
            raise error
        self._report(event, error)


async def ended(closing: Awaitable[None], listening: Callable[[], Sequence[Calls]]) -> None:
    """Wait until something is closed, and for what those have begun who listen to it.

    A listener may close what it listens to, by itself or by way of others who listen to each other:
    then it is not waited for until it is closed, but by everybody else who closes it after that.
    """
    call = _calling.get()
    if call is None or not call.calls.is_under_way(call):
        await closing
        await _finish(listening())
        return
    with ExitStack() as waiting:
        free = [waiting.enter_context(each.awaited_by(call)) for each in listening()]
        await closing
        if all(free):
            await _finish(listening())


async def _finish(listening: Sequence[Calls]) -> None:
    for each in listening:
        await each.finish_after_the_end()


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
