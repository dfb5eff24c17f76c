"""Handlers: a coroutine on the loop, a function in a thread, or one in a process."""

import asyncio
import contextvars
import inspect
import itertools
import pickle
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar, cast

from waystation.core.errors import InvalidOption
from waystation.core.options import at_least
from waystation.core.runtime.handlers.calls import (
    Attempt,
    Calls,
    CallsToLoop,
    CallsToParent,
    Viewed,
    current,
    leaving,
    views_of,
)
from waystation.core.runtime.handlers.pools import Processes, Threads
from waystation.core.runtime.handlers.time_limit import held_until_begun

W = TypeVar("W")


class Handler(Generic[W]):
    """A user's function, made awaitable whatever its kind."""

    def __init__(self, run: Callable[[Any], Coroutine[Any, Any, Any]], *, batch: int = 0) -> None:
        self.run = run
        self.batch = batch
        """How much work one run may take at once; 0 means one piece, not in a list."""

    async def close(self) -> None:
        """Let go of threads and processes; what still runs in them is abandoned."""


def handler_of(
    function: Callable[[Any], Any], *, process: bool = False, batch: int = 0
) -> Handler[Any]:
    """Wrap `async def` to run on the loop, plain `def` in a thread, `process=True` in a process.

    A `Handler` is taken as it is.
    """
    if isinstance(function, Handler):
        return cast(Handler[Any], function)
    if not callable(function):
        raise InvalidOption(f"a handler must be a function, got {function!r}")
    _check_shape(function)
    at_least("batch", batch, 0)
    if process:
        _check_portable(function)
        return _InProcesses(function, batch)
    if _is_async(function):
        return Handler(function, batch=batch)
    return _InThreads(function, batch)


def _check_shape(function: Callable[[Any], Any]) -> None:
    """Refuse what could only ever fail, before it has been given a job."""
    name = getattr(function, "__name__", repr(function))
    # Something else that can be called may know what is to be written instead.
    if isinstance(why := getattr(function, "not_a_handler", None), str):
        raise InvalidOption(why)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidOption(f"the handler {name} must return its result, not yield it")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some functions written in C do not say what they take
    try:
        signature.bind(None)
    except TypeError:
        raise InvalidOption(
            f"the handler {name} must take one argument, the job; it is {name}{signature}"
        ) from None


class _InThreads(Handler[Any]):
    def __init__(self, function: Callable[[Any], Any], batch: int) -> None:
        super().__init__(self._run, batch=batch)
        self._function = function
        self._threads = Threads(name="handler")

    async def _run(self, work: Any) -> Any:
        attempt = Attempt()
        seen = views_of(work, lambda each: CallsToLoop(each, attempt))
        context = contextvars.copy_context()
        context.run(current.set, attempt)
        begun = held_until_begun()

        def call() -> Any:
            with attempt.running():
                begun()
                return context.run(self._function, seen)

        try:
            result: Any = await self._threads.run(call)
            # A plain function may still hand back a coroutine, as a lambda around one does.
            return await result if inspect.iscoroutine(result) else result
        except asyncio.CancelledError:
            # The thread cannot be stopped, only asked to.
            attempt.cancelled = True
            if attempt.is_running and (leave_behind := leaving.get()) is not None:
                leave_behind(attempt)
            raise

    async def close(self) -> None:
        self._threads.close()


class _InProcesses(Handler[Any]):
    def __init__(self, function: Callable[[Any], Any], batch: int) -> None:
        super().__init__(self._run, batch=batch)
        self._function = function
        self._processes = Processes()
        self._numbers = itertools.count()

    async def _run(self, work: Any) -> Any:
        attempt = Attempt()
        calls: dict[int, Calls] = {}

        def connect(each: Viewed) -> Calls:
            # Never the same number again: a thread that outlives its handler in a process must
            # not get hold of the next one's work.
            number = next(self._numbers)
            calls[number] = CallsToLoop(each, attempt)
            return CallsToParent(number)

        return await self._processes.run(self._function, views_of(work, connect), calls)

    async def close(self) -> None:
        await self._processes.close()


def _check_portable(function: Callable[[Any], Any]) -> None:
    try:
        pickle.dumps(function)
    except Exception:
        raise InvalidOption(
            f"a handler that runs in a process must be a function of a module, got {function!r}"
        ) from None


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )
