"""Pools: functions run in threads, or in processes, which can be killed without harm to others."""

import asyncio
import atexit
import contextvars
import multiprocessing
import os
import pickle
import signal
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, TypeAlias

from waystation.core.errors import ProcessDied, Unrecoverable, WorkError
from waystation.core.failure import note_trace
from waystation.core.runtime.handlers.calls import (
    BEGUN,
    CALL,
    DONE,
    Call,
    Calls,
    connected_to,
    handler_has_ended,
)
from waystation.core.runtime.handlers.time_limit import held_until_begun
from waystation.core.telemetry import logs

_Asked: TypeAlias = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """A pool that starts a thread for each call that finds no idle one.

    Whoever calls decides how many run at once: a call never waits behind one that hangs. The
    standard library's pool would also keep the process from ending until every thread is done, and
    a function that was given up cannot be stopped.
    """

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Asked | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Call the function in a thread; one that has begun goes on when nobody waits for it."""
        outcome: Future[Any] = Future()
        if not self._idle.acquire(blocking=False):
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._calls.put((outcome, function))
        return await asyncio.wrap_future(outcome)

    def close(self) -> None:
        """Take no more calls; what runs is left to itself."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while call := self._calls.get():
            outcome, function = call
            answer = _settle(outcome, function) if outcome.set_running_or_notify_cancel() else None
            # Idle before anybody can know, so that whoever calls next starts no other thread.
            self._idle.release()
            if answer:
                answer()
            # What was answered is not held on to while this thread waits for more.
            del call, outcome, function, answer


def _settle(outcome: "Future[Any]", function: Callable[[], Any]) -> Callable[[], None]:
    try:
        return partial(outcome.set_result, function())
    except StopIteration as error:
        # No future takes it, because it would end the coroutine that waits, without a word.
        stopped = RuntimeError(f"the handler raised {type(error).__name__}")
        stopped.__cause__ = error
        return partial(outcome.set_exception, stopped)
    except BaseException as error:
        return partial(outcome.set_exception, error)


# Forking a process that runs threads can deadlock the child; a fork server is started clean.
_CONTEXT = multiprocessing.get_context("forkserver")


Answer: TypeAlias = tuple[Any, BaseException | None]
"""What a function gave, or what it raised."""


class Processes:
    """A pool in which every run can be cancelled, because it has its process to itself."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._readers = Threads(name="process-reader")
        self._children: set[_Child] = set()

    async def run(
        self,
        function: Callable[[Any], Any],
        work: Any,
        calls: Mapping[int, Calls] = MappingProxyType({}),
    ) -> Any:
        """Call the function with the work in a process; cancelling kills the process.

        What the function asks of its work goes through `calls`, by the number of the work.
        """
        child = self._idle_child() or self._start()
        try:
            result, error = await self._exchange(child, (function, work), calls)
        except BaseException:
            self._drop(child)
            raise
        self._idle.append(child)
        if error is not None:
            raise error
        return result

    async def close(self) -> None:
        """Kill every process."""
        for child in list(self._children):
            self._drop(child)
        self._readers.close()

    def _idle_child(self) -> "_Child | None":
        while self._idle:
            child = self._idle.pop()
            if child.is_alive():
                return child
            # Killed while it had nothing to do: no work shall fail for that.
            self._drop(child)
        return None

    def _start(self) -> "_Child":
        child = _Child()
        self._children.add(child)
        return child

    def _drop(self, child: "_Child") -> None:
        self._children.discard(child)
        child.kill()

    async def _exchange(self, child: "_Child", message: Any, calls: Mapping[int, Calls]) -> Answer:
        begun = held_until_begun()
        try:
            return await self._readers.run(lambda: child.exchange(message, calls, begun))
        except (EOFError, ConnectionError):
            raise ProcessDied(f"the handler's process ended with {child.exit_code()}") from None


class _Child:
    """A process that runs one handler after the other."""

    def __init__(self) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process: BaseProcess = _CONTEXT.Process(
            target=_serve, args=(theirs, logs.configured()), daemon=True
        )
        self._process.start()
        _started.add(self)
        theirs.close()

    def exchange(
        self, message: Any, calls: Mapping[int, Calls], begun: Callable[[], None]
    ) -> Answer:
        self._pipe.send(message)
        while True:
            kind, content = self._pipe.recv()
            if kind == BEGUN:
                begun()
                continue
            if kind == DONE:
                return content
            number, call = content
            answer = _answer_call(calls.get(number), call)
            _send(self._pipe, CALL, answer, what=f"answer to {call.step}")

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def exit_code(self) -> str:
        self._process.join(timeout=1)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def kill(self) -> None:
        # The reader thread finds the pipe closed; closing it under a reader is not safe.
        self._process.kill()


_started: "weakref.WeakSet[_Child]" = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    # Before multiprocessing's own end, which asks with SIGTERM and waits for whoever ignores it.
    for child in list(_started):
        child.kill()


os.register_at_fork(after_in_child=_started.clear)


def _serve(pipe: Connection, logging: logs.Config | None) -> None:
    if logging is not None:
        logs.configure(level=logging.level, format=logging.format, redact=logging.redact)
    parent = connected_to(pipe)
    # A signal may reach every process of a group, but only the worker decides what it ends.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    while True:
        try:
            function, work = pipe.recv()
        except EOFError:
            return
        pipe.send((BEGUN, None))
        with parent.working():
            # One process runs many jobs: what one sets in context variables ends with it.
            answer = contextvars.copy_context().run(_answer, function, work)
        _send(pipe, DONE, answer, what="result")


def _answer(function: Callable[[Any], Any], work: Any) -> Answer:
    try:
        result = function(work)
        if asyncio.iscoroutine(result):
            result = asyncio.run(result)
    except BaseException as error:
        # The traceback does not survive pickling; as a note it reaches whoever reads the failure.
        note_trace(error)
        return None, _portable(error.with_traceback(None))
    return result, None


def _answer_call(calls: Calls | None, call: Call) -> Answer:
    try:
        if calls is None:
            raise handler_has_ended(call)
        return calls.ask(call), None
    except Exception as error:
        return None, _portable(error)


def _portable(error: BaseException) -> BaseException:
    """The error, or one that says the same where it could not be read on the other side."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception as trouble:
        portable = WorkError(
            f"{type(error).__name__}: {error} (it cannot leave its process: {trouble})"
        )
        for note in getattr(error, "__notes__", ()):
            portable.add_note(note)
        return portable
    return error


def _send(pipe: Connection, kind: str, answer: Answer, *, what: str) -> None:
    try:
        pipe.send((kind, answer))
    except OSError:
        raise
    except Exception as error:
        portable = Unrecoverable(f"the {what} cannot leave its process: {error}")
        pipe.send((kind, (None, portable)))
