"""The parts of a queue, for code that waits: schedulers, limits, dead letters."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar, Unpack

from waystation import bullmq
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import JobKeywords, JobOptions
from waystation.bullmq.scheduling.schedule import Schedule, Scheduler
from waystation.bullmq.sync_job import SyncJob
from waystation.core.checked import checked
from waystation.core.durations import Duration
from waystation.core.store.connection import blocking

T = TypeVar("T")

Bound: TypeAlias = Callable[[], bullmq.Queue]
"""The queue for a loop, over a store that is open and blocks."""
_Schedulers: TypeAlias = list[Scheduler]
_Jobs: TypeAlias = list[SyncJob]


@checked
class Schedulers:
    """The schedulers of a queue: `queue.schedulers`."""

    def __init__(self, queue: Bound) -> None:
        """Internal: a queue makes it."""
        self._queue = queue

    def upsert(
        self,
        scheduler_id: str,
        schedule: Schedule,
        *,
        name: str | None = None,
        data: Any = None,
        options: JobOptions | None = None,
        **given: Unpack[JobKeywords],
    ) -> str:
        """Make a scheduler, or change the one of this id; returns the id of its next job.

        Its jobs get this name (by default the scheduler's id), this data and these options. One
        that is paused stays so and makes no job; the returned id is empty then.
        """
        return self._run(
            lambda all: all.upsert(
                scheduler_id, schedule, name=name, data=data, options=options, **given
            )
        )

    def get(self, scheduler_id: str) -> Scheduler | None:
        """The scheduler of this id."""
        return self._run(lambda all: all.get(scheduler_id))

    def list(self, offset: int = 0, limit: int | None = 100) -> _Schedulers:
        """Schedulers, by when their next jobs are due, paused ones last; `limit` None means all."""
        return self._run(lambda all: all.list(offset, limit))

    def count(self) -> int:
        """How many schedulers there are."""
        return self._run(lambda all: all.count())

    def pause(self, scheduler_id: str, *, by: str = "") -> bool:
        """Make no jobs until it is resumed; False when it is paused already.

        Its next job goes; one that is due already stays. `by` names whoever pauses it.
        """
        return self._run(lambda all: all.pause(scheduler_id, by=by))

    def resume(self, scheduler_id: str) -> str:
        """Make jobs again, without those that were missed; returns the id of the next one."""
        return self._run(lambda all: all.resume(scheduler_id))

    def remove(self, scheduler_id: str) -> bool:
        """Remove a scheduler; False when there is none. A job of it that is due already stays."""
        return self._run(lambda all: all.remove(scheduler_id))

    def _run(self, step: Callable[[bullmq.Schedulers], Coroutine[Any, Any, T]]) -> T:
        queue = self._queue()
        return blocking.run(lambda: step(queue.schedulers))


@checked
class Limits:
    """The limits of a queue, which bind all its workers: `queue.limits`."""

    def __init__(self, queue: Bound) -> None:
        """Internal: a queue makes it."""
        self._queue = queue

    def set_concurrency(self, concurrency: int) -> None:
        """Let at most so many jobs be active at once."""
        self._run(lambda all: all.set_concurrency(concurrency))

    def get_concurrency(self) -> int | None:
        """How many jobs may be active at once; None when there is no limit."""
        return self._run(lambda all: all.get_concurrency())

    def remove_concurrency(self) -> None:
        """Remove the limit of active jobs."""
        self._run(lambda all: all.remove_concurrency())

    def is_maxed(self) -> bool:
        """True when as many jobs are active as may be."""
        return self._run(lambda all: all.is_maxed())

    def set_rate_limit(self, max: int, duration: Duration) -> None:
        """Let at most `max` jobs start in this duration."""
        self._run(lambda all: all.set_rate_limit(max, duration))

    def get_rate_limit(self) -> Limit | None:
        """The rate limit; None when there is none."""
        return self._run(lambda all: all.get_rate_limit())

    def remove_rate_limit(self) -> None:
        """Remove the rate limit."""
        self._run(lambda all: all.remove_rate_limit())

    def rate_limit(self, duration: Duration) -> None:
        """Start no job for a while, where a rate limit is set."""
        self._run(lambda all: all.rate_limit(duration))

    def rate_limit_ttl(self, max: int | None = None) -> timedelta:
        """How long no job may start; zero when one may.

        `max` is the limit to compare with; without it the queue's own counts and, if it has none,
        whatever was counted.
        """
        return self._run(lambda all: all.rate_limit_ttl(max))

    def reset_rate_limit(self) -> bool:
        """Let jobs start again at once; False when nothing held them back."""
        return self._run(lambda all: all.reset_rate_limit())

    def _run(self, step: Callable[[bullmq.Limits], Coroutine[Any, Any, T]]) -> T:
        queue = self._queue()
        return blocking.run(lambda: step(queue.limits))


@checked
class DeadLetters:
    """The failed jobs of a queue: `queue.dead_letters`."""

    def __init__(self, queue: Bound, read: Callable[[bullmq.Job], SyncJob]) -> None:
        """Internal: a queue makes it."""
        self._queue = queue
        self._read = read

    def list(self, offset: int = 0, limit: int | None = 100) -> _Jobs:
        """Failed jobs, those that failed last first; `limit` None means all."""
        return [self._read(each) for each in self._run(lambda all: all.list(offset, limit))]

    def count(self) -> int:
        """How many failed jobs there are."""
        return self._run(lambda all: all.count())

    def retry(self, *ids: str) -> int:
        """Run these jobs again; returns how many of them had failed."""
        return self._run(lambda all: all.retry(*ids))

    def retry_all(self, limit: int | None = None) -> int:
        """Run all failed jobs again, the oldest first, at most `limit`; returns how many."""
        return self._run(lambda all: all.retry_all(limit))

    def purge(self) -> int:
        """Remove all failed jobs; returns how many."""
        return self._run(lambda all: all.purge())

    def _run(self, step: Callable[[bullmq.DeadLetters], Coroutine[Any, Any, T]]) -> T:
        queue = self._queue()
        return blocking.run(lambda: step(queue.dead_letters))
