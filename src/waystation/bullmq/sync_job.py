"""The job as a plain `def` handler gets it: the same steps, each done when its call returns."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

from waystation.bullmq.children import ChildKind, DependencyCounts, DependencyPage
from waystation.bullmq.fields import Changed, JobFields
from waystation.bullmq.job_steps import Logs
from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.bullmq.states import JobState
from waystation.core.runtime.handlers.calls import Call, Calls

T = TypeVar("T")


class QueuePlace(NamedTuple):
    """Where a queue is."""

    keys: QueueKeys


class SyncJob(JobFields):
    """A job in the hands of a plain function, in a thread or in a process.

    A call returns when the store has answered. Once the job was cancelled, its lock was lost, its
    time is up or the worker has closed, `cancelled` is true and every call raises `Cancelled`;
    a handler in a process is ended there and then.
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
        super().__init__(id, fields, token)
        self._keys = keys
        self._calls = calls
        self._way = way
        """From the job that the handler was given to this one."""

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the handler any more, so that it should clean up and end."""
        return self._calls.cancelled

    @property
    def queue(self) -> QueuePlace:
        """The queue it lives in."""
        return QueuePlace(self._keys)

    @property
    def keys(self) -> JobKeys:
        """Where it is kept."""
        return self._keys.of(self.id)

    def update_data(self, data: Any) -> None:
        """Give the job other data."""
        return self._do("update_data", data)

    def update_progress(self, progress: Any, message: str | None = None) -> None:
        """Tell how far the job is, with any JSON value."""
        return self._do("update_progress", progress, message)

    def log(self, line: str) -> int:
        """Write a line into the job's log; how many it has now."""
        return self._do("log", line)

    def logs(self, start: int = 0, end: int = -1, *, asc: bool = True) -> Logs:
        """Lines of the job's log, the oldest first unless asked otherwise."""
        return self._do("logs", start, end, asc=asc)

    def clear_logs(self, keep: int = 0) -> None:
        """Forget the job's log, or all but its newest lines."""
        return self._do("clear_logs", keep)

    def promote(self) -> None:
        """Let the delayed job run now."""
        return self._do("promote")

    def change_delay(self, delay: int) -> None:
        """Let the delayed job wait so many milliseconds from now."""
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

    def remove(self, *, remove_children: bool = True) -> None:
        """Remove the job and, unless asked otherwise, its children."""
        return self._do("remove", remove_children=remove_children)

    def move_to_delayed(self, timestamp: int, token: str | None = None) -> None:
        """Let the job wait until that millisecond; the handler then raises `JobDelayed`."""
        return self._do("move_to_delayed", timestamp, token)

    def move_to_wait(self, token: str | None = None) -> int:
        """Put the job back at the head of the line; the handler then raises `JobWaiting`.

        The reply is how many milliseconds the rate limit still lets nothing through.
        """
        return self._do("move_to_wait", token)

    def move_to_waiting_children(self, *, child: str | None = None) -> bool:
        """Leave it to wait for its children, or for the one with this key; the handler then
        raises `JobWaitingForChildren`. False when there is nothing to wait for."""
        return self._do("move_to_waiting_children", child=child)

    def rate_limit(self, ms: int) -> None:
        """Let no job of the queue start for so many milliseconds; the handler then raises
        `JobRateLimited`."""
        return self._do("rate_limit", ms)

    def extend_lock(self, duration: int, token: str | None = None) -> None:
        """Hold the job for so many milliseconds from now."""
        return self._do("extend_lock", duration, token)

    def discard(self) -> None:
        """Let a failure of this attempt be the last, whatever attempts are left."""
        return self._do("discard")

    def remove_deduplication_key(self) -> bool:
        """Let others like this job in, if it is the one that stands for them."""
        return self._do("remove_deduplication_key")

    def state(self) -> JobState:
        """Where the job is now."""
        return self._do("state")

    def is_completed(self) -> bool:
        """Whether it has been done."""
        return self._do("is_completed")

    def is_failed(self) -> bool:
        """Whether it has failed for good."""
        return self._do("is_failed")

    def is_delayed(self) -> bool:
        """Whether its time has not come yet."""
        return self._do("is_delayed")

    def is_active(self) -> bool:
        """Whether a worker has it."""
        return self._do("is_active")

    def is_waiting(self) -> bool:
        """Whether it is ready to run, by priority or in turn."""
        return self._do("is_waiting")

    def is_paused(self) -> bool:
        """Whether it would run if its queue were not paused."""
        return self._do("is_paused")

    def is_waiting_children(self) -> bool:
        """Whether it waits for other jobs."""
        return self._do("is_waiting_children")

    def wait_until_finished(self, *, timeout: int | None = None) -> Any:
        """What the handler of the job returns, once it has; `JobFailed` when it fails for good."""
        return self._do("wait_until_finished", timeout=timeout)

    def refresh(self) -> None:
        """Read the job again."""
        return self._do("refresh")

    def get_dependencies(
        self, kind: ChildKind, *, cursor: int = 0, count: int = 100
    ) -> DependencyPage:
        """Some of its children; a page has about `count` of them, and no child is left out."""
        return self._do("get_dependencies", kind, cursor=cursor, count=count)

    def dependency_counts(self) -> DependencyCounts:
        """How many children it has of each kind."""
        return self._do("dependency_counts")

    def children_values(self) -> dict[str, Any]:
        """What its completed children returned, by their keys."""
        return self._do("children_values")

    def ignored_children_failures(self) -> dict[str, str]:
        """Why children failed that did not make it fail, by their keys."""
        return self._do("ignored_children_failures")

    def failed_children(self) -> list[str]:
        """The keys of the children whose failure makes it fail, in that order."""
        return self._do("failed_children")

    def remove_child_dependency(self) -> bool:
        """Let its parent wait for it no longer; False when it did not."""
        return self._do("remove_child_dependency")

    def remove_unprocessed_children(self) -> int:
        """Remove the children that nobody has begun, with their own; how many jobs that were."""
        return self._do("remove_unprocessed_children")

    def get_parent(self) -> "SyncJob | None":
        """The job that waits for this one; None when nobody does."""
        return self._make(Call(f"{self._way}get_parent"), self._parent)

    def _parent(self, answer: Any) -> "SyncJob | None":
        found = self._result(answer)
        if found is None:
            return None
        id, fields, keys = found
        return SyncJob(id, fields, None, keys, self._calls, f"{self._way}get_parent.")

    def _do(self, step: str, *args: Any, **kwargs: Any) -> Any:
        return self._make(Call(f"{self._way}{step}", args, kwargs), self._result)

    def _make(self, call: Call, read: Callable[[Any], T]) -> T:
        return self._calls.make(call, read)

    def _result(self, answer: tuple[Any, Changed]) -> Any:
        result, changed = answer
        (self.replace if changed.is_all else self.remember)(changed.fields)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return SyncJob, (self.id, self._fields, self.token, self._keys, self._calls, self._way)

    def __repr__(self) -> str:
        return f"SyncJob({self.id!r}, {self.name!r})"
