"""StepTurns: a plain handler's job leaves its worker only when no step of it is under way."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from waystation.bullmq.step_rules import not_inside

_LOOK_AGAIN_S = 0.1
_inside: ContextVar[tuple["StepTurns", ...]] = ContextVar("inside", default=())
"""The turns of the jobs whose steps this code is part of."""


class StepTurns:
    """What `Steps` does for coroutines, where the handler is: threads of it share the job.

    Not on the worker's loop, because a process has one pipe to it: a sleep that waited there for a
    step would keep that from being stored.
    """

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self._is_cancelled = is_cancelled
        self._changed = threading.Condition()
        self._under_way = 0
        self._is_leaving = False

    @contextmanager
    def step(self) -> Generator[None]:
        """A step is under way inside; it does not begin while the job is about to leave."""
        is_part = self in _inside.get()
        with self._changed:
            # For a part of a step the step is waited for.
            self._wait(lambda: is_part or not self._is_leaving)
            self._under_way += 1
        inside = _inside.set((*_inside.get(), self))
        try:
            yield
        finally:
            _inside.reset(inside)
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    @contextmanager
    def leaving(self, what: str, job_id: str) -> Generator[None]:
        """The job leaves its worker inside; steps that are under way are stored before."""
        if self in _inside.get():
            raise not_inside(what, job_id)
        with self._changed:
            self._wait(lambda: not self._under_way and not self._is_leaving)
            self._is_leaving = True
        try:
            yield
        finally:
            with self._changed:
                self._is_leaving = False
                self._changed.notify_all()

    def _wait(self, is_ready: Callable[[], bool]) -> None:
        # Of one that was cancelled, whatever comes next is refused.
        while not is_ready() and not self._is_cancelled():
            self._changed.wait(_LOOK_AGAIN_S)
