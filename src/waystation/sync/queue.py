"""Queue, for code that waits: adds jobs, looks them up, and administers them.

Written by `make docs` from the code for a loop; do not edit.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from waystation.bullmq.metrics import Metrics, MetricsKind
from waystation.bullmq.queue import WEEK_S, Cleanable, Retryable
from waystation.bullmq.redis.commands import Logs
from waystation.bullmq.redis.packing import JobLike
from waystation.bullmq.states import JobState, State
from waystation.bullmq.sync_job import SyncJob
from waystation.core.durations import Duration
from waystation.core.line.forecasts import Forecast
from waystation.core.options import checked
from waystation.sync.bound import BlockingQueue


@checked
class Queue(BlockingQueue):
    """A queue: adds jobs, looks them up, and administers them.

    Everything that `waystation.bullmq.Queue` does, without `await`. Threads may share it, and a
    process that was forked later goes on with connections of its own.
    """

    def add_many(self, jobs: Iterable[JobLike]) -> list[SyncJob]:
        """Add many jobs, each a name, its data and perhaps options.

        All of them are checked before the first is sent; then they go a few hundred at a time, and
        none after a batch that the store has refused.
        """
        return self._do("add_many", jobs)

    def get_job(self, job_id: str) -> SyncJob | None:
        """The job as it is now; None when there is none."""
        return self._do("get_job", job_id)

    def get_jobs(
        self, *states: State, offset: int = 0, limit: int | None = 100, newest_first: bool = False
    ) -> list[SyncJob]:
        """Jobs of these states, or of all, in this order; a page of each state.

        `offset` and `limit` count in each state; `limit` None means all. Ids without a job are left
        out, and those after them fill the page. Data that is kept outside the store is read when it
        is looked at; `await job.refresh()` before that does not hold up the loop.
        """
        return self._do("get_jobs", *states, offset=offset, limit=limit, newest_first=newest_first)

    def state(self, job_id: str) -> JobState:
        """The state that a job is in."""
        return self._do("state", job_id)

    def signal(self, job_id: str, signal: str, data: Any = None) -> bool:
        """Send a signal to a job that waits for it, or will; False when the job has ended."""
        return self._do("signal", job_id, signal, data)

    def logs(
        self, job_id: str, offset: int = 0, limit: int | None = None, *, newest_first: bool = False
    ) -> Logs:
        """Lines of a job's log; `limit` None means all."""
        return self._do("logs", job_id, offset, limit, newest_first=newest_first)

    def get_deduplication_job_id(self, deduplication_id: str) -> str | None:
        """The id of the job that owns a deduplication id."""
        return self._do("get_deduplication_job_id", deduplication_id)

    def counts(self, *states: State) -> dict[State, int]:
        """How many jobs are in each of these states, or in all."""
        return self._do("counts", *states)

    def count(self) -> int:
        """How many jobs are still to be done, without those that are active."""
        return self._do("count")

    def counts_per_priority(self, priorities: Sequence[int]) -> dict[int, int]:
        """How many jobs wait with each of the priorities."""
        return self._do("counts_per_priority", priorities)

    def forecast(self) -> Forecast:
        """What the history says of the queue: its throughput, when it is empty, workers needed.

        `waystation pipeline run` computes it; values that are not fresh are None.
        """
        return self._do("forecast")

    def metrics(self, kind: MetricsKind, offset: int = 0, limit: int | None = None) -> Metrics:
        """How many jobs were completed or failed, by the minute, the newest first."""
        return self._do("metrics", kind, offset, limit)

    def prometheus_text(self) -> str:
        """The queue's numbers in Prometheus' text format."""
        return self._do("prometheus_text")

    def workers(self) -> list[dict[str, str]]:
        """The workers of this queue, as the server lists their connections."""
        return self._do("workers")

    def meta(self) -> dict[str, str]:
        """The settings that are stored with the queue: limits, pause, version, cap of events."""
        return self._do("meta")

    def version(self) -> str | None:
        """The library that made the queue, and its version."""
        return self._do("version")

    def pause(self, *, by: str = "") -> None:
        """Start no jobs until the queue is resumed; active ones go on. The event names `by`."""
        return self._do("pause", by=by)

    def resume(self) -> None:
        """Start jobs again."""
        return self._do("resume")

    def is_paused(self) -> bool:
        """True when the queue is paused."""
        return self._do("is_paused")

    def retry(self, *ids: str, state: Retryable | None = None) -> int:
        """Run these finished jobs again, or those of one state; returns how many there were."""
        return self._do("retry", *ids, state=state)

    def retry_all(
        self,
        state: Retryable = "failed",
        *,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> int:
        """Run all finished jobs of a state again that ended up to `until`; returns how many."""
        return self._do("retry_all", state, until=until, limit=limit)

    def promote_all(self, *, limit: int | None = None) -> int:
        """Make all delayed jobs ready to run now, at most `limit`; returns how many."""
        return self._do("promote_all", limit=limit)

    def cancel(self, *ids: str, reason: str = "") -> int:
        """Make jobs fail for good that have not ended, running ones too; returns how many.

        The worker of a running job notices it when it next renews its lock, and stops the handler.
        """
        return self._do("cancel", *ids, reason=reason)

    def drain(self, delayed: bool = False) -> int:
        """Remove all jobs that wait and, with `delayed`, those that are delayed; returns how many.

        The next jobs of schedulers stay.
        """
        return self._do("drain", delayed)

    def clean(
        self, grace: Duration, limit: int = 1000, state: Cleanable = "completed"
    ) -> list[str]:
        """Remove jobs of a state that are older than `grace`, at most `limit`, or all with 0.

        Returns the ids of the jobs removed.
        """
        return self._do("clean", grace, limit, state)

    def obliterate(self, *, force: bool = False) -> None:
        """Delete the queue with everything in it; `force` deletes active jobs, too."""
        return self._do("obliterate", force=force)

    def remove(
        self, job_id: str, *, remove_children: bool = True, by: str = "", state: State | None = None
    ) -> bool:
        """Remove a job and, by default, its children; False when held, or not in that `state`."""
        return self._do("remove", job_id, remove_children=remove_children, by=by, state=state)

    def remove_orphans(
        self, *, count: int = 1000, limit: int = 0, dry_run: bool = False
    ) -> list[str]:
        """Delete jobs that are in no state, at most `limit`, or all with 0; returns their ids.

        With `dry_run` they are found and stay. All keys of the store are scanned, about `count` at
        a time.
        """
        return self._do("remove_orphans", count=count, limit=limit, dry_run=dry_run)

    def remove_deduplication_key(self, deduplication_id: str) -> bool:
        """Allow another job with this deduplication id; False when no job owned it."""
        return self._do("remove_deduplication_key", deduplication_id)

    def trim_events(self, max_len: int) -> int:
        """Keep about `max_len` of the newest events; returns how many were deleted."""
        return self._do("trim_events", max_len)

    def sweep_blobs(self, *, older: Duration = WEEK_S, dry_run: bool = False) -> int:
        """Delete blobs older than that which no job mentions any more; returns how many.

        All jobs under the queue's prefix are read, because a parent may be in another queue.
        """
        return self._do("sweep_blobs", older=older, dry_run=dry_run)
