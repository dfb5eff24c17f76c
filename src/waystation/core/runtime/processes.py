"""Functions run in processes of their own, which can be killed without harm to the others."""

import asyncio
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from waystation.core.errors import Unrecoverable, WorkError
from waystation.core.telemetry import logs

from .threads import Threads

# Forking a process that runs threads can deadlock the child; a fork server is started clean.
_CONTEXT = multiprocessing.get_context("forkserver")


class ProcessDied(WorkError):
    """The process that ran a handler ended before the handler did."""

    code = "PROCESS_DIED"


class Processes:
    """A pool in which every run can be cancelled, because it has its process to itself."""

    def __init__(self, limit: int) -> None:
        self._idle: list[_Child] = []
        self._limit = asyncio.Semaphore(limit)
        self._readers = Threads(limit, name="process-reader")
        self._children: set[_Child] = set()

    async def run(self, function: Callable[[Any], Any], work: Any) -> Any:
        """Call the function with the work in a process; cancelling kills the process."""
        async with self._limit:
            child = self._idle_child() or self._start()
            try:
                result, error = await self._exchange(child, (function, work))
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

    async def _exchange(self, child: "_Child", message: Any) -> tuple[Any, BaseException | None]:
        try:
            return await self._readers.run(lambda: child.exchange(message))
        except (EOFError, ConnectionError):
            raise ProcessDied(f"the handler's process ended with {child.exit_code()}") from None


class _Child:
    def __init__(self) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process: BaseProcess = _CONTEXT.Process(
            target=_serve, args=(theirs, logs.configured()), daemon=True
        )
        self._process.start()
        theirs.close()

    def exchange(self, message: Any) -> tuple[Any, BaseException | None]:
        self._pipe.send(message)
        return self._pipe.recv()

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def exit_code(self) -> str:
        self._process.join(timeout=1)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def kill(self) -> None:
        # The reader thread finds the pipe closed; closing it under a reader is not safe.
        self._process.kill()


def _serve(pipe: Connection, logging: logs.Config | None) -> None:
    if logging is not None:
        logs.configure(level=logging.level, format=logging.format, redact=logging.redact)
    # A Ctrl-C reaches every process of the terminal, but only the worker decides what it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            function, work = pipe.recv()
        except EOFError:
            return
        answer = _answer(function, work)
        try:
            pipe.send(answer)
        except Exception as error:
            pipe.send((None, Unrecoverable(f"the result cannot leave its process: {error}")))


def _answer(function: Callable[[Any], Any], work: Any) -> tuple[Any, BaseException | None]:
    try:
        result = function(work)
        if asyncio.iscoroutine(result):
            result = asyncio.run(result)
    except BaseException as error:
        # The traceback does not survive pickling; as a note it reaches whoever reads the failure.
        error.add_note(traceback.format_exc())
        return None, _portable(error.with_traceback(None))
    return result, None


def _portable(error: BaseException) -> BaseException:
    """The error, or one that says the same where it could not be read on the other side."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception as trouble:
        told = WorkError(
            f"{type(error).__name__}: {error} (it cannot leave its process: {trouble})"
        )
        told.__notes__ = error.__notes__
        return told
    return error
