"""What clients that wait do by themselves; `Queue` and `FlowProducer` have the rest.

The code for a loop does the work, over a store that is open and whose clients block.
"""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, Unpack, cast

import msgspec
from msgspec import UNSET

from waystation import bullmq
from waystation.bullmq import (
    JobKeywords,
    JobOptions,
    Part,
    PayloadOptions,
    QueueEvent,
    RepeatStrategy,
    SyncJob,
)
from waystation.bullmq.events.stream import NOW
from waystation.bullmq.fields import Changed
from waystation.bullmq.parts import BLOCK_S, Reading
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.packing import Adding, Packed
from waystation.core import codec
from waystation.core.durations import Duration
from waystation.core.runtime.handlers.calls import Call, Calls
from waystation.core.store.connection import Store, blocking
from waystation.core.store.connection.blocking import BlockingStore
from waystation.sync.client import BlockingClient
from waystation.sync.events import QueueEvents
from waystation.sync.parts import DeadLetters, Groups, Limits, Schedulers

T = TypeVar("T")

Wait: TypeAlias = Callable[..., Any]
"""Waits for the end of the job with this id, at most so long."""


class BlockingQueue(BlockingClient):
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
        self.schedulers = Schedulers(self._do, "schedulers")
        """Schedulers, which add jobs again and again."""
        self.limits = Limits(self._do, "limits")
        """Limits of concurrency and rate, over all workers."""
        self.dead_letters = DeadLetters(self._do, "dead_letters")
        """Jobs that have failed for good."""
        self.groups = Groups(self._do, "groups")
        """Groups of jobs, which take turns: their limits, weights and pauses."""

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.name

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

    def wait(self, job_id: str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        return self._queue.opened(self._listener().wait(job_id, timeout))

    def events(self, after: str | None = None) -> Iterator[QueueEvent]:
        """Events of the queue as they happen, or after the event with this id."""
        return self._listener().listen(NOW if after is None else after)

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

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        step = attrgetter(method)(self._bound())
        found = blocking.run(lambda: step(*args, **kwargs))
        if isinstance(found, list):
            return [self._read(each) for each in cast("list[Any]", found)]
        return self._read(found)

    def _bound(self) -> "_BoundQueue":
        self._queue.bind(self._store())
        return self._queue

    def _listener(self) -> QueueEvents:
        return QueueEvents(self.name, self._store(), prefix=self._prefix)

    def _read(self, found: Any) -> Any:
        """A job for code that waits; anything else as it is."""
        is_job = isinstance(found, bullmq.Job)
        return blocking_job(cast(bullmq.Job, found), self.wait) if is_job else found

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


class FlowJob(msgspec.Struct, frozen=True):
    """A job of a flow, with those it waits for."""

    job: SyncJob
    """The job as it was added or read."""
    children: list["FlowJob"]
    """The jobs that it waits for."""


class BlockingFlows(BlockingClient):
    """Adds trees of jobs over any queues of one store, and reads them back.

    `payloads` encrypts their data, or keeps large data outside the store.
    """

    def __init__(
        self,
        url: "str | BlockingStore | None" = None,
        *,
        prefix: str = PREFIX,
        payloads: PayloadOptions | None = None,
    ) -> None:
        super().__init__(url)
        self.prefix = prefix
        self._payloads = payloads

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        flows = _BoundFlows(self._store(), self.prefix, self._payloads)
        found = blocking.run(lambda: getattr(flows, method)(*args, **kwargs))
        if isinstance(found, list):
            return [self._read(each) for each in cast("list[Any]", found)]
        return found and self._read(found)

    def _read(self, tree: bullmq.FlowJob) -> FlowJob:
        events = QueueEvents(tree.job.queue_name, self._store(), prefix=self.prefix)
        sealing = Sealing(self._payloads, here=True) if self._payloads else None

        def wait(job_id: str, timeout: Duration | None = None) -> Any:
            stored = events.wait(job_id, timeout)
            return stored if sealing is None else sealing.opened(stored)

        return FlowJob(blocking_job(tree.job, wait), [self._read(e) for e in tree.children])


class _BoundFlows(bullmq.FlowProducer):
    """The producer for a loop, over a store that is open and blocks."""

    _blocks = True

    def __init__(self, store: BlockingStore, prefix: str, payloads: PayloadOptions | None) -> None:
        super().__init__(store, prefix=prefix, payloads=payloads)
        self._bound = store

    async def _connected(self) -> Store:
        return self._bound


class CallsHere(Calls):
    """Calls to a job whose client blocks."""

    def __init__(self, job: bullmq.Job, wait: Wait) -> None:
        self._job = job
        self._wait = wait

    def ask(self, call: Call) -> Any:
        """Make one call."""
        if call.step == "wait":
            result = self._wait(self._job.id, *call.args, **call.kwargs)
            return result, Changed({}, is_all=False)
        return blocking.run(lambda: self._job.perform(call))

    def make(self, call: Call, read: Callable[[Any], T]) -> T:
        """Make one call and read the answer, also where a loop runs."""
        return read(self.ask(call))


def blocking_job(job: bullmq.Job, wait: Wait) -> SyncJob:
    """The job for code that waits."""
    return job.view(CallsHere(job, wait))
