"""Calls from plain handlers: how a function in a thread or a process does something with its job.

The job itself lives on the worker's loop. A plain handler gets a view of it, whose calls block
until the loop has answered; from another process they travel through the pipe that brought the
work.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from waystation.core.errors import Cancelled, InvalidInput, WrongState

T = TypeVar("T")

BEGUN, CALL, DONE = "begun", "call", "done"
"""What a process sends: that its handler begins, a step it wants done, that it has ended."""


class Call(NamedTuple):
    """One step that a plain handler wants done."""

    step: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}


@runtime_checkable
class Viewed(Protocol):
    """Work that a plain handler sees through a view."""

    def view(self, calls: "Calls") -> Any:
        """What a plain handler gets instead of the work."""
        ...

    async def perform(self, call: Call) -> Any:
        """Do one step on the worker's loop; the answer is for the view to read."""
        ...


class Calls(ABC):
    """The way from a view to its work."""

    @abstractmethod
    def ask(self, call: Call) -> Any:
        """Have a step done, and wait for the answer."""

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the handler any more."""
        return False

    def make(self, call: Call, read: Callable[[Any], T]) -> T:
        """Have a step done and read the answer, as `blocking` does."""
        return self.blocking(lambda: read(self.ask(call)))

    def blocking(self, work: Callable[[], T]) -> T:
        """Do what blocks, such as several steps.

        A coroutine that was handed a view, such as an `async def` handler in a process, gets
        something to await instead, because its loop must not be blocked.
        """
        if not _on_a_loop():
            return work()
        return cast(T, asyncio.ensure_future(asyncio.to_thread(work)))


class Attempt:
    """One run of a plain handler."""

    __slots__ = ("cancelled", "is_running")

    def __init__(self) -> None:
        self.cancelled = False
        """Cancelled, without a lease, out of time, or left by a worker that has closed."""
        self.is_running = False
        """Whether the function has begun and not ended, whoever still waits for it."""

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Say that the function runs; it does not begin when nobody waits for it any more."""
        self.is_running = True
        try:
            # In this order, and the other way round where it is cancelled, one sees the other.
            if self.cancelled:
                raise Cancelled("the job was given up before its handler began")
            yield
        finally:
            self.is_running = False


current: ContextVar[Attempt | None] = ContextVar("attempt", default=None)
"""The run of a plain handler that this code belongs to."""

leaving: ContextVar[Callable[[Attempt], None] | None] = ContextVar("leaving", default=None)
"""Whom to tell of a run that was given up and goes on in its thread."""


def is_cancelled() -> bool:
    """Whether nobody waits any more for the plain handler that asks; it should clean up and end."""
    attempt = current.get()
    return attempt is not None and attempt.cancelled


class CallsToLoop(Calls):
    """Calls to work on a loop from another thread."""

    def __init__(self, work: Viewed, attempt: Attempt) -> None:
        self._work = work
        self._attempt = attempt
        self._loop = asyncio.get_running_loop()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the handler any more."""
        return self._attempt.cancelled

    def ask(self, call: Call) -> Any:
        """Have a step done on the loop; not any more when the handler should have ended."""
        if self.cancelled:
            raise Cancelled(
                f"{call.step} was not done: the job was cancelled, its lease was lost, "
                "its time is up, or its worker has closed"
            )
        step = self._work.perform(call)
        try:
            return asyncio.run_coroutine_threadsafe(step, self._loop).result()
        except concurrent.futures.CancelledError:
            raise Cancelled(f"{call.step} was not done: the worker has closed") from None
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            step.close()
            raise Cancelled(f"{call.step} was not done: the worker has closed") from None

    def __reduce__(self) -> tuple[Any, ...]:
        # Whoever pickles a view takes it away from the worker.
        return (CallsToParent, (-1,))


class CallsToParent(Calls):
    """Calls to work in the process that this one was started from."""

    def __init__(self, number: int) -> None:
        self._number = number

    def ask(self, call: Call) -> Any:
        """Have a step done by the worker that started this process."""
        if _parent is None or self._number < 0:
            raise WrongState(f"{call.step} was not done: the job was taken away from its worker")
        return _parent.ask(self._number, call)


class ParentPipe:
    """A process's end of the pipe to the worker that started it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._one_at_a_time = threading.Lock()
        self._is_working = False

    @property
    def is_asking(self) -> bool:
        """Whether some thread waits for an answer right now."""
        return self._one_at_a_time.locked()

    @contextlib.contextmanager
    def working(self) -> Generator[None]:
        """Let calls through while a handler runs, because only then the worker listens."""
        self._is_working = True
        try:
            yield
        finally:
            with self._one_at_a_time:
                self._is_working = False

    def ask(self, number: int, call: Call) -> Any:
        """Have a step done by the worker, with the work of that number."""
        with self._one_at_a_time:
            if not self._is_working:
                raise handler_has_ended(call)
            try:
                self._pipe.send((CALL, (number, call)))
            except OSError:
                raise
            except Exception as error:
                raise InvalidInput(
                    f"what {call.step} was given cannot leave its process: {error}"
                ) from None
            _, (answer, error) = self._pipe.recv()
        if error is not None:
            raise error
        return answer


def handler_has_ended(call: Call) -> WrongState:
    """Why a step is not done for whoever outlives the handler, such as a thread of its own."""
    return WrongState(f"{call.step} was not done: the handler has ended")


_parent: ParentPipe | None = None


def connected_to(pipe: Connection) -> ParentPipe:
    """Let the views that come through this pipe call back through it."""
    global _parent
    _parent = ParentPipe(pipe)
    return _parent


def _forget_pipe() -> None:
    # The thread that waits for an answer is not in this process, and would wait for it in vain.
    global _parent
    if _parent is not None and _parent.is_asking:
        _parent = None


os.register_at_fork(after_in_child=_forget_pipe)


def views_of(work: Any, connect: Callable[[Viewed], Calls]) -> Any:
    """What a plain handler gets for a piece of work, or for a list of them."""
    if isinstance(work, list):
        return [_view_of(each, connect) for each in cast(list[Any], work)]
    return _view_of(work, connect)


def _view_of(work: Any, connect: Callable[[Viewed], Calls]) -> Any:
    return work.view(connect(work)) if isinstance(work, Viewed) else work


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
