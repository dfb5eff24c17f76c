"""SyncJob: the job as a plain `def` handler gets it, with blocking calls."""

import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal, ParamSpec, TypeVar, Unpack

from msgspec import UNSET

from waystation.bullmq.fields import (
    Changed,
    Data,
    JobFields,
    Result,
    remember,
    remember_all,
)
from waystation.bullmq.options import JobKeywords
from waystation.bullmq.payloads.envelope import is_envelope
from waystation.bullmq.redis.children import (
    ChildKind,
    ChildResult,
    DependencyCounts,
    DependencyPage,
)
from waystation.bullmq.redis.commands import Logs
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.states import JobState
from waystation.bullmq.step_rules import as_promised, as_wanted, check_promise, name_of
from waystation.core.checked import checked
from waystation.core.durations import Duration, DurationKeywords
from waystation.core.errors import InvalidInput
from waystation.core.runtime.handlers.calls import Call, Calls

P = ParamSpec("P")
T = TypeVar("T")


@checked
class SyncJob(JobFields[Data, Result]):
    """A job as a plain function gets it, in a thread or in a process.

    It has the methods of `Job`, and each returns when the store has answered. When the job was
    cancelled, its lock was lost, its time is up or the worker has closed, `cancelled` is True and
    every call raises `Cancelled`; a handler in a process is ended at once.
    """

    __slots__ = ("_calls", "_keys", "_way")

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

    @property
    def cancelled(self) -> bool:
        """True when the handler should clean up and end, because its result no longer counts."""
        return self._calls.cancelled

    @property
    def queue_name(self) -> str:
        """The name of the job's queue."""
        return self._keys.name

    def update_data(self, data: Data) -> None:
        """Replace the job's data."""
        return self._do("update_data", data)

    def update_progress(self, progress: Any, message: str | None = None) -> None:
        """Report the job's progress, which is any JSON value."""
        return self._do("update_progress", progress, message)

    def log(self, line: object) -> int:
        """Append a line to the job's log, as `str` writes it; return how many lines it has now."""
        return self._do("log", str(line))

    def logs(
        self, offset: int = 0, limit: int | None = None, *, newest_first: bool = False
    ) -> Logs:
        """Lines of the job's log, the oldest first unless asked otherwise."""
        return self._do("logs", offset, limit, newest_first=newest_first)

    def clear_logs(self, keep: int = 0) -> None:
        """Delete the job's log, except the newest `keep` lines."""
        return self._do("clear_logs", keep)

    def promote(self) -> None:
        """Make the delayed job ready to run now."""
        return self._do("promote")

    def change_delay(self, delay: Duration) -> None:
        """Delay the delayed job anew, counted from now."""
        return self._do("change_delay", delay)

    def change_priority(self, priority: int = 0, *, lifo: bool = False) -> None:
        """Give the job another priority; `lifo` puts it ahead of those that have it already."""
        return self._do("change_priority", priority, lifo=lifo)

    def retry(
        self,
        state: Literal["failed", "completed"] = "failed",
        *,
        reset_attempts_made: bool = False,
        reset_attempts_started: bool = False,
    ) -> None:
        """Let the finished job run again."""
        return self._do(
            "retry",
            state,
            reset_attempts_made=reset_attempts_made,
            reset_attempts_started=reset_attempts_started,
        )

    def cancel(self, reason: str = "") -> bool:
        """Make the job fail, whether it waits or runs; False when it has ended already."""
        return self._do("cancel", reason)

    def remove(self, *, remove_children: bool = True) -> None:
        """Remove the job and, by default, its children."""
        return self._do("remove", remove_children=remove_children)

    def move_to_delayed(self, until: datetime, token: str | None = None) -> None:
        """Delay the job until this instant; the handler then raises `JobDelayed`."""
        return self._do("move_to_delayed", until, token)

    def move_to_wait(self, token: str | None = None) -> timedelta:
        """Put the job back at the head of its queue; the handler then raises `JobWaiting`.

        Returns how long the rate limit still holds the queue back.
        """
        return self._do("move_to_wait", token)

    def move_to_waiting_children(self, *, child: str | None = None) -> bool:
        """Make the job wait for its children, or for the one with this key.

        The handler then raises `JobWaitingForChildren`. False when there is nothing to wait for.
        """
        return self._do("move_to_waiting_children", child=child)

    def rate_limit(self, duration: Duration) -> None:
        """Start no job of the queue for a while; the handler then raises `JobRateLimited`."""
        return self._do("rate_limit", duration)

    def extend_lock(self, duration: Duration, token: str | None = None) -> None:
        """Hold the job for this long from now."""
        return self._do("extend_lock", duration, token)

    def discard(self) -> None:
        """Make a failure of this attempt final, even if attempts are left."""
        return self._do("discard")

    def step(self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function once, however often the job is tried, and return what it returned.

        What it returns is stored as JSON, and has the type that the function's annotation names.
        Steps of one name are distinguished by their order; one whose function has changed since it
        was done raises `WrongState`.
        """
        if inspect.iscoroutinefunction(function):
            raise InvalidInput(f"a step of a plain handler is a plain function, got {function!r}")
        by = name_of(function)
        step, done = self._do("_begin_step", name, by)
        if done is not None:
            return as_promised(function, done[0])
        check_promise(step, function)
        return as_promised(function, self._do("_save_step", step, function(*args, **kwargs), by))

    def sleep(self, duration: Duration | None = None, **given: Unpack[DurationKeywords]) -> None:
        """Leave the worker for a duration, such as `days=3`; then the handler runs again."""
        return self._do("sleep", duration, **given)

    def sleep_until(self, instant: datetime) -> None:
        """Leave the worker until this instant; then the handler runs again."""
        return self._do("sleep_until", instant)

    def wait_for(self, signal: str, timeout: Duration | None = None, *, type: Any = Any) -> Any:
        """Leave the worker until somebody calls `queue.signal`; returns the data of the signal.

        Each wait takes the first signal of its name that no other has taken. Raises `TimedOut` when
        none has come after `timeout`. With `type` the data is read as that.
        """
        data = self._do("wait_for", signal, timeout)
        return as_wanted(f"the signal {signal!r}", data, type)

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
        result = self._do("run_child", name, data, queue=queue, **given)
        return as_wanted(f"the result of the child {name!r}", result, type)

    def emit(self, data: Any) -> int:
        """Append a part to the job's output, for readers of `queue.stream`; returns its number."""
        return self._do("emit", data)

    def remove_deduplication_key(self) -> bool:
        """Allow other jobs with this one's deduplication id; False when this one did not own it."""
        return self._do("remove_deduplication_key")

    def state(self) -> JobState:
        """The state that the job is in now."""
        return self._do("state")

    def is_completed(self) -> bool:
        """True when the job is completed."""
        return self._do("is_completed")

    def is_failed(self) -> bool:
        """True when the job has failed for good."""
        return self._do("is_failed")

    def is_delayed(self) -> bool:
        """True when the job is delayed."""
        return self._do("is_delayed")

    def is_active(self) -> bool:
        """True when a worker holds the job."""
        return self._do("is_active")

    def is_waiting(self) -> bool:
        """True when the job is ready to run, with a priority or without."""
        return self._do("is_waiting")

    def is_paused(self) -> bool:
        """True when the job is ready to run, but its queue is paused."""
        return self._do("is_paused")

    def is_waiting_children(self) -> bool:
        """True when the job waits for its children."""
        return self._do("is_waiting_children")

    def wait(self, timeout: Duration | None = None) -> Result:
        """Wait until the job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        return self._do("wait", timeout)

    def refresh(self) -> None:
        """Read the job again."""
        return self._do("refresh")

    def get_dependencies(
        self, kind: ChildKind, *, cursor: int = 0, count: int = 100
    ) -> DependencyPage:
        """Some of its children; a page has about `count` of them, and no child is left out."""
        return self._do("get_dependencies", kind, cursor=cursor, count=count)

    def dependency_counts(self) -> DependencyCounts:
        """How many children of each kind the job has."""
        return self._do("dependency_counts")

    def children_values(self) -> dict[str, Any]:
        """Results of the job's completed children, by their keys."""
        return self._do("children_values")

    def children_results(self) -> list[ChildResult]:
        """The job's finished children with their names, in the order in which a flow gave them."""
        return self._do("children_results")

    def ignored_children_failures(self) -> dict[str, str]:
        """Reasons of failed children that do not fail the job, by their keys."""
        return self._do("ignored_children_failures")

    def failed_children(self) -> list[str]:
        """Keys of the children whose failure fails the job, in the order of their failures."""
        return self._do("failed_children")

    def remove_child_dependency(self) -> bool:
        """Release the job's parent from waiting for it; False when it did not wait."""
        return self._do("remove_child_dependency")

    def remove_unprocessed_children(self) -> int:
        """Remove the children that no worker has started, with theirs; returns how many jobs."""
        return self._do("remove_unprocessed_children")

    def get_parent(self) -> "SyncJob | None":
        """The job that waits for this one."""
        return self._make(Call(f"{self._way}get_parent"), self._parent)

    def _parent(self, answer: Any) -> "SyncJob | None":
        found = self._result(answer)
        if found is None:
            return None
        id, fields, keys = found
        return SyncJob(id, fields, None, keys, self._calls, f"{self._way}get_parent.")

    def _opened(self, stored: Any) -> Any:
        # A handler gets its job opened; the job of a queue is opened when it is looked at.
        return self._do("_opened", stored) if is_envelope(stored) else stored

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._make(Call(f"{self._way}{method}", args, kwargs), self._result)

    def _make(self, call: Call, read: Callable[[Any], T]) -> T:
        return self._calls.make(call, read)

    def _result(self, answer: tuple[Any, Changed]) -> Any:
        result, changed = answer
        (remember_all if changed.is_all else remember)(self, changed.fields)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return SyncJob, (self.id, self._fields, self.token, self._keys, self._calls, self._way)

    def __repr__(self) -> str:
        return f"SyncJob({self.id!r}, {self.name!r})"
