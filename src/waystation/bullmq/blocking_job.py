"""What a job for code that waits does by itself; `SyncJob` has the rest of the methods of `Job`."""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from msgspec import UNSET

from waystation.bullmq.fields import (
    Changed,
    Data,
    JobFields,
    Result,
    remember,
    remember_all,
)
from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.payloads.envelope import is_envelope
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.step_rules import as_promised, as_wanted, check_promise, name_of
from waystation.bullmq.step_turns import StepTurns
from waystation.core.durations import Duration
from waystation.core.errors import InvalidInput
from waystation.core.runtime.handlers.calls import Call, Calls

P = ParamSpec("P")
T = TypeVar("T")

_LEAVES = {
    "sleep": "sleep",
    "sleep_until": "sleep",
    "wait_for": "wait_for",
    "run_child": "run_child",
}
"""Calls by which a job may leave its worker, and what they are called in an error."""


class BlockingJob(JobFields[Data, Result]):
    """A job as a plain function gets it, in a thread or in a process.

    It has the methods of `Job`, and each returns when the store has answered. When the job was
    cancelled, its lock was lost, its time is up or the worker has closed, `cancelled` is True and
    every call raises `Cancelled`; a handler in a process is ended at once.
    """

    __slots__ = ("_calls", "_keys", "_turns", "_way")

    def __init__(
        self,
        id: str,
        fields: dict[bytes, bytes],
        token: str | None,
        keys: QueueKeys,
        calls: Calls,
        way: str = "",
    ) -> None:
        """Internal: queues and workers make jobs."""
        super().__init__(id, fields, token)
        self._keys = keys
        self._calls = calls
        self._way = way
        """The path from the handler's job to this one."""
        self._turns = StepTurns(lambda: calls.cancelled)

    @property
    def cancelled(self) -> bool:
        """True when the handler should clean up and end, because its result no longer counts."""
        return self._calls.cancelled

    @property
    def queue_name(self) -> str:
        """The name of the job's queue."""
        return self._keys.name

    def log(self, line: object) -> int:
        """Append a line to the job's log, as `str` writes it; return how many lines it has now."""
        return self._do("log", str(line))

    def step(self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function once, however often the job is tried, and return what it returned.

        What it returns is stored as JSON, and has the type that the function's annotation names.
        Steps of one name are distinguished by their order; one whose function has changed since it
        was done raises `WrongState`.
        """
        if inspect.iscoroutinefunction(function):
            raise InvalidInput(f"a step of a plain handler is a plain function, got {function!r}")
        return self._calls.blocking(lambda: self._step(name, function, args, kwargs))

    def wait_for(self, signal: str, timeout: Duration | None = None, *, type: Any = Any) -> Any:
        """Leave the worker until somebody calls `queue.signal`; returns the data of the signal.

        Each wait takes the first signal of its name that no other has taken. Raises `TimedOut` when
        none has come after `timeout`. With `type` the data is read as that.
        """
        what = f"the signal {signal!r}"
        return self._calls.blocking(
            lambda: as_wanted(what, self._do("wait_for", signal, timeout), type)
        )

    def on_failure(
        self, name: str, function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Call a function, once, if the job fails for good; those given last are called first.

        It is called in the worker; a handler in a process can only name functions of a module.
        """
        return self._do("on_failure", name, function, *args, **kwargs)

    def run_child(
        self,
        name: str,
        data: Any = UNSET,
        *,
        queue: str | None = None,
        type: Any = Any,
        **given: Unpack[JobKeywords],
    ) -> Any:
        """Add a child once, leave the worker until it has ended, and return its result.

        Raises `JobFailed` when it fails for good. With `type` the result is read as that.
        """
        what = f"the result of the child {name!r}"
        return self._calls.blocking(
            lambda: as_wanted(what, self._do("run_child", name, data, queue=queue, **given), type)
        )

    def wait(self, timeout: Duration | None = None) -> Result:
        """Wait until the job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        return self._do("wait", timeout)

    def get_parent(self) -> Self | None:
        """The job that waits for this one."""
        return self._make(Call(f"{self._way}get_parent"), self._parent)

    def _parent(self, answer: Any) -> Self | None:
        found = self._result(answer)
        if found is None:
            return None
        id, fields, keys = found
        return type(self)(id, fields, None, keys, self._calls, f"{self._way}get_parent.")

    def _opened(self, stored: Any) -> Any:
        # A handler gets its job opened; the job of a queue is opened when it is looked at.
        return self._do("_opened", stored) if is_envelope(stored) else stored

    def _step(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        by = name_of(function)
        with self._turns.step():
            step, done = self._do("_begin_step", name, by)
            if done is not None:
                return as_promised(function, done[0])
            check_promise(step, function)
            saved = self._do("_save_step", step, function(*args, **kwargs), by)
            return as_promised(function, saved)

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = Call(f"{self._way}{method}", args, kwargs)
        if method in _LEAVES:
            return self._calls.blocking(lambda: self._leave(_LEAVES[method], call))
        return self._make(call, self._result)

    def _leave(self, what: str, call: Call) -> Any:
        with self._turns.leaving(what, self.id):
            return self._make(call, self._result)

    def _make(self, call: Call, read: Callable[[Any], T]) -> T:
        return self._calls.make(call, read)

    def _result(self, answer: tuple[Any, Changed]) -> Any:
        result, changed = answer
        (remember_all if changed.is_all else remember)(self, changed.fields)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.id, self._fields, self.token, self._keys, self._calls, self._way)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.name!r})"
