"""Queue, for code that waits: adds jobs, looks them up, and administers them."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from msgspec import UNSET

from waystation import bullmq
from waystation.bullmq import (
    Cleanable,
    JobKeywords,
    JobOptions,
    JobState,
    Logs,
    Metrics,
    MetricsKind,
    Part,
    PayloadOptions,
    QueueEvent,
    RepeatStrategy,
    Retryable,
    State,
    SyncJob,
)
from waystation.bullmq.events.stream import NOW
from waystation.bullmq.parts import BLOCK_S, Reading
from waystation.bullmq.queue import WEEK_S
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.packing import Adding, JobLike, Packed
from waystation.core import codec
from waystation.core.checked import checked
from waystation.core.durations import Duration
from waystation.core.line.forecasts import Forecast
from waystation.core.store.connection import Store, blocking
from waystation.core.store.connection.blocking import BlockingStore
from waystation.sync.client import BlockingClient
from waystation.sync.events import QueueEvents
from waystation.sync.jobs import blocking_job
from waystation.sync.parts import DeadLetters, Limits, Schedulers

T = TypeVar("T")


@checked
class Queue(BlockingClient):
    """A queue: adds jobs, looks them up, and administers them.

    Everything that `waystation.bullmq.Queue` does, without `await`. Threads may share it, and a
    process that was forked later goes on with connections of its own.
    """

    def __init__(
        self,
        name: str,
        url: "str | BlockingStore | None" = None,
        *,
        prefix: str = PREFIX,
        default_job_options: JobOptions | None = None,
        size_limit: int = codec.PAYLOAD_LIMIT,
        repeat_strategy: RepeatStrategy | None = None,
        payloads: PayloadOptions | None = None,
    ) -> None:
        super().__init__(url)
        self._queue = _BoundQueue(
            name,
            prefix=prefix,
            default_job_options=default_job_options,
            size_limit=size_limit,
            repeat_strategy=repeat_strategy,
            payloads=payloads,
        )
        self._prefix = prefix
        self.schedulers = Schedulers(self._bound)
        """Schedulers, which add jobs again and again."""
        self.limits = Limits(self._bound)
        """Limits of concurrency and rate, over all workers."""
        self.dead_letters = DeadLetters(self._bound, self._read)
        """Jobs that have failed for good."""

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.name

    # Adding

    def add(
        self,
        name: str,
        data: Any = UNSET,
        options: JobOptions | None = None,
        **given: Unpack[JobKeywords],
    ) -> SyncJob:
        """Add a job; its options are a `JobOptions`, or keywords, which count before it.

        The data is any JSON value, and an empty object when none is given. When there is a job with
        this id already, or the job is a duplicate, the existing job is returned as it is stored.
        """
        # The most frequent call, and one that needs no loop at all.
        return self._read(blocking.finish(self._bound().add(name, data, options, **given)))

    def add_many(self, jobs: Iterable[JobLike]) -> list[SyncJob]:
        """Add many jobs, each a name, its data and perhaps options.

        All of them are checked before the first is sent; then they go a few hundred at a time, and
        none after a batch that the store has refused.
        """
        return [self._read(each) for each in self._run(lambda queue: queue.add_many(jobs))]

    # Looking up

    def get_job(self, job_id: str) -> SyncJob | None:
        """The job as it is now; None when there is none."""
        found = self._run(lambda queue: queue.get_job(job_id))
        return found and self._read(found)

    def get_jobs(
        self,
        *states: State,
        offset: int = 0,
        limit: int | None = 100,
        newest_first: bool = False,
    ) -> list[SyncJob]:
        """Jobs of these states, or of all, in this order; a page of each state.

        `offset` and `limit` count in each state; `limit` None means all. Ids without a job are left
        out, and those after them fill the page.
        """
        found = self._run(
            lambda queue: queue.get_jobs(
                *states, offset=offset, limit=limit, newest_first=newest_first
            )
        )
        return [self._read(each) for each in found]

    def state(self, job_id: str) -> JobState:
        """The state that a job is in."""
        return self._run(lambda queue: queue.state(job_id))

    def wait(self, job_id: str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        return self._queue.opened(self._listener().wait(job_id, timeout))

    def events(self, after: str | None = None) -> Iterator[QueueEvent]:
        """Events of the queue as they happen, or after the event with this id."""
        return self._listener().listen(NOW if after is None else after)

    def signal(self, job_id: str, signal: str, data: Any = None) -> bool:
        """Send a signal to a job that waits for it, or will; False when the job has ended."""
        return self._run(lambda queue: queue.signal(job_id, signal, data))

    def stream(self, job_id: str, after: str = "0") -> Iterator[Part]:
        """The job's output in parts, as it is emitted, until the job ends.

        A reader who comes back gives the id of the last part it got as `after`. Raises `JobFailed`
        after the last part when the job has failed for good.
        """
        store = self._store()
        # A call that blocks longer than a call may take would look like a lost answer.
        block_s = min(BLOCK_S, store.options.call_timeout / 2)
        keys = QueueKeys(self.name, prefix=self._prefix)
        reading = Reading(store.hot, store.hot, keys, job_id, after, block_s=block_s)
        return _until_the_end(reading)

    def logs(
        self,
        job_id: str,
        offset: int = 0,
        limit: int | None = None,
        *,
        newest_first: bool = False,
    ) -> Logs:
        """Lines of a job's log; `limit` None means all."""
        return self._run(lambda queue: queue.logs(job_id, offset, limit, newest_first=newest_first))

    def get_deduplication_job_id(self, deduplication_id: str) -> str | None:
        """The id of the job that owns a deduplication id."""
        return self._run(lambda queue: queue.get_deduplication_job_id(deduplication_id))

    # Numbers

    def counts(self, *states: State) -> dict[State, int]:
        """How many jobs are in each of these states, or in all."""
        return self._run(lambda queue: queue.counts(*states))

    def count(self) -> int:
        """How many jobs are still to be done, without those that are active."""
        return self._run(lambda queue: queue.count())

    def counts_per_priority(self, priorities: Sequence[int]) -> dict[int, int]:
        """How many jobs wait with each of the priorities."""
        return self._run(lambda queue: queue.counts_per_priority(priorities))

    def forecast(self) -> Forecast:
        """What the history says of the queue: its throughput, when it is empty, workers needed.

        `waystation pipeline run` computes it; values that are not fresh are None.
        """
        return self._run(lambda queue: queue.forecast())

    def metrics(self, kind: MetricsKind, offset: int = 0, limit: int | None = None) -> Metrics:
        """How many jobs were completed or failed, by the minute, the newest first."""
        return self._run(lambda queue: queue.metrics(kind, offset, limit))

    def prometheus_text(self) -> str:
        """The queue's numbers in Prometheus' text format."""
        return self._run(lambda queue: queue.prometheus_text())

    def workers(self) -> list[dict[str, str]]:
        """The workers of this queue, as the server lists their connections."""
        return self._run(lambda queue: queue.workers())

    def meta(self) -> dict[str, str]:
        """The settings that are stored with the queue: limits, pause, version, cap of events."""
        return self._run(lambda queue: queue.meta())

    def version(self) -> str | None:
        """The library that made the queue, and its version."""
        return self._run(lambda queue: queue.version())

    # Pausing

    def pause(self, *, by: str = "") -> None:
        """Start no jobs until the queue is resumed; active ones go on. The event names `by`."""
        self._run(lambda queue: queue.pause(by=by))

    def resume(self) -> None:
        """Start jobs again."""
        self._run(lambda queue: queue.resume())

    def is_paused(self) -> bool:
        """True when the queue is paused."""
        return self._run(lambda queue: queue.is_paused())

    # Running again

    def retry(self, *ids: str, state: Retryable | None = None) -> int:
        """Run these finished jobs again, or those of one state; returns how many there were."""
        return self._run(lambda queue: queue.retry(*ids, state=state))

    def retry_all(
        self,
        state: Retryable = "failed",
        *,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> int:
        """Run all finished jobs of a state again that ended up to `until`; returns how many."""
        return self._run(lambda queue: queue.retry_all(state, until=until, limit=limit))

    def promote_all(self, *, limit: int | None = None) -> int:
        """Make all delayed jobs ready to run now, at most `limit`; returns how many."""
        return self._run(lambda queue: queue.promote_all(limit=limit))

    def cancel(self, *ids: str, reason: str = "") -> int:
        """Make jobs fail that wait, are delayed or run, wherever; returns how many."""
        return self._run(lambda queue: queue.cancel(*ids, reason=reason))

    # Removing

    def drain(self, delayed: bool = False) -> int:
        """Remove all jobs that wait and, with `delayed`, those that are delayed; returns how many.

        The next jobs of schedulers stay.
        """
        return self._run(lambda queue: queue.drain(delayed))

    def clean(
        self, grace: Duration, limit: int = 1000, state: Cleanable = "completed"
    ) -> list[str]:
        """Remove jobs of a state that are older than `grace`, at most `limit`, or all with 0.

        Returns the ids of the jobs removed.
        """
        return self._run(lambda queue: queue.clean(grace, limit, state))

    def obliterate(self, *, force: bool = False) -> None:
        """Delete the queue with everything in it; `force` deletes active jobs, too."""
        self._run(lambda queue: queue.obliterate(force=force))

    def remove(
        self, job_id: str, *, remove_children: bool = True, by: str = "", state: State | None = None
    ) -> bool:
        """Remove a job and, by default, its children; False when held, or not in that `state`."""
        return self._run(
            lambda queue: queue.remove(job_id, remove_children=remove_children, by=by, state=state)
        )

    def remove_orphans(
        self, *, count: int = 1000, limit: int = 0, dry_run: bool = False
    ) -> list[str]:
        """Delete jobs that are in no state, at most `limit`, or all with 0; returns their ids.

        With `dry_run` they are found and stay. All keys of the store are scanned, about `count` at
        a time.
        """
        return self._run(
            lambda queue: queue.remove_orphans(count=count, limit=limit, dry_run=dry_run)
        )

    def remove_deduplication_key(self, deduplication_id: str) -> bool:
        """Allow another job with this deduplication id; False when no job owned it."""
        return self._run(lambda queue: queue.remove_deduplication_key(deduplication_id))

    def trim_events(self, max_len: int) -> int:
        """Keep about `max_len` of the newest events; returns how many were deleted."""
        return self._run(lambda queue: queue.trim_events(max_len))

    def sweep_blobs(self, *, older: Duration = WEEK_S, dry_run: bool = False) -> int:
        """Delete blobs older than that which no job mentions any more; returns how many.

        All jobs under the queue's prefix are read, because a parent may be in another queue.
        """
        return self._run(lambda queue: queue.sweep_blobs(older=older, dry_run=dry_run))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A method that only the queue for a loop declares."""
            method = None if name.startswith("_") else getattr(bullmq.Queue, name, None)
            if not callable(method):
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            return lambda *args, **kwargs: self._run(
                lambda queue: getattr(queue, name)(*args, **kwargs)
            )

    # Internal

    def _bound(self) -> "_BoundQueue":
        self._queue.bind(self._store())
        return self._queue

    def _run(self, step: "Callable[[_BoundQueue], Coroutine[Any, Any, T]]") -> T:
        queue = self._bound()
        return blocking.run(lambda: step(queue))

    def _listener(self) -> QueueEvents:
        return QueueEvents(self.name, self._store(), prefix=self._prefix)

    def _read(self, job: bullmq.Job) -> SyncJob:
        return blocking_job(job, self.wait)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def _until_the_end(reading: Reading) -> Iterator[Part]:
    while (parts := blocking.run(reading.more)) is not None:
        yield from parts


class _BoundQueue(bullmq.Queue):
    """The queue for a loop, over a store that is open and blocks."""

    _blocks = True
    _bound: BlockingStore

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._adding = _AddingAlone(self._request)

    def bind(self, store: BlockingStore) -> None:
        self._bound = store

    def opened(self, stored: Any) -> Any:
        return stored if self._sealing is None else self._sealing.opened(stored)

    async def _connected(self) -> Store:
        return self._bound


class _AddingAlone(Adding):
    """Adds each job by itself, because no other caller is on the same loop."""

    async def add(self, store: Store, job: Packed) -> Any:
        [added] = await self._send(store, [job])
        return added
