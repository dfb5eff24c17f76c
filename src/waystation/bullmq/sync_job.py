"""SyncJob: the job as a plain `def` handler gets it, with blocking calls.

Written by `make docs` from the code for a loop; do not edit.
"""

from datetime import datetime, timedelta
from typing import Any, Literal, Unpack

from waystation.bullmq.blocking_job import BlockingJob
from waystation.bullmq.fields import Data, Result
from waystation.bullmq.redis import children
from waystation.bullmq.redis.children import ChildResult, DependencyCounts, DependencyPage
from waystation.bullmq.redis.commands import Logs
from waystation.bullmq.states import JobState
from waystation.core.durations import Duration, DurationKeywords
from waystation.core.options import checked


@checked
class SyncJob(BlockingJob[Data, Result]):
    """A job as a plain function gets it, in a thread or in a process.

    It has the methods of `Job`, and each returns when the store has answered. When the job was
    cancelled, its lock was lost, its time is up or the worker has closed, `cancelled` is True and
    every call raises `Cancelled`; a handler in a process is ended at once.
    """

    __slots__ = ()

    def refresh(self) -> None:
        """Read the job again, and what of it is kept outside the store."""
        return self._do("refresh")

    def update_data(self, data: Data) -> None:
        """Replace the job's data."""
        return self._do("update_data", data)

    def update_progress(self, progress: Any, message: str | None = None) -> None:
        """Report the job's progress, which is any JSON value."""
        return self._do("update_progress", progress, message)

    def logs(
        self, offset: int = 0, limit: int | None = None, *, newest_first: bool = False
    ) -> Logs:
        """Lines of the job's log; `limit` None means all."""
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
        """Run the finished job again."""
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

    def remove_deduplication_key(self) -> bool:
        """Allow other jobs with this one's deduplication id; False when this one did not own it."""
        return self._do("remove_deduplication_key")

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

    def charge(self, cost: float) -> None:
        """Say what the job costs in truth, such as tokens, instead of what was thought before.

        What it costs more is counted for its group from now on; a rate limit of the group is
        exceeded by no later job for it.
        """
        return self._do("charge", cost)

    def discard(self) -> None:
        """Make a failure of this attempt final, even if attempts are left."""
        return self._do("discard")

    def sleep(self, duration: Duration | None = None, **given: Unpack[DurationKeywords]) -> None:
        """Leave the worker for a duration, such as `days=3`; then the handler runs again."""
        return self._do("sleep", duration, **given)

    def sleep_until(self, instant: datetime) -> None:
        """Leave the worker until this instant; then the handler runs again."""
        return self._do("sleep_until", instant)

    def emit(self, data: Any) -> int:
        """Append a part to the job's output, for readers of `queue.stream`; returns its number.

        Parts that an earlier attempt has emitted are not repeated.
        """
        return self._do("emit", data)

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

    def get_dependencies(
        self, kind: children.ChildKind, *, cursor: int = 0, count: int = 100
    ) -> DependencyPage:
        """A page of about `count` of the job's children of one kind."""
        return self._do("get_dependencies", kind, cursor=cursor, count=count)

    def dependency_counts(self) -> DependencyCounts:
        """How many children of each kind the job has."""
        return self._do("dependency_counts")

    def children_values(self) -> dict[str, Any]:
        """Results of the job's completed children, by their keys."""
        return self._do("children_values")

    def children_results(self) -> list[ChildResult]:
        """The job's finished children with their names, in the order in which a flow gave them.

        Children with ids of their own come in the order of these.
        """
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
