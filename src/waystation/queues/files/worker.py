"""The worker: handlers over the queues of one line, with its reaper and its duties beside it."""

import asyncio
from collections.abc import Sequence
from typing import Self

import msgspec

from waystation.core.breaker import BreakerOptions, State
from waystation.core.errors import StoreError
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.worker import Worker as CoreWorker
from waystation.core.runtime.worker import WorkerOptions
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.telemetry.metrics import Metrics
from waystation.core.telemetry.traces import Traces

from . import upkeep
from .claims import FileSource
from .handlers import Handlers, registered
from .job import Job
from .keys import FileKeys
from .meter import Meter
from .options import Layout, ReaperOptions, WorkOptions
from .upkeep import Reaper

PROMOTE_S = 1.0


class FileWorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one worker process."""

    count: int = 16
    """Files worked on at a time."""
    work: WorkOptions = WorkOptions()
    reaper: ReaperOptions = ReaperOptions()
    breaker: BreakerOptions | None = BreakerOptions()
    timeout_s: float | None = None
    """How long one file may take."""
    grace_s: float = 30.0
    sample_s: float = 2.0
    """How often the lengths of the queues are looked at."""


class Worker:
    """Works on files; entering starts it, leaving lets it finish what it has begun."""

    def __init__(
        self,
        store: Store,
        handlers: Handlers = registered,
        layout: Layout | None = None,
        options: FileWorkerOptions | None = None,
        *,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        worker_id: str | None = None,
    ) -> None:
        options = options or FileWorkerOptions()
        self._store = store
        self._options = options
        self.keys = FileKeys(layout)
        self.metrics = metrics or Metrics()
        meter = Meter(self.metrics, self.keys.queues)
        self.source = FileSource(
            store,
            self.keys,
            options.work,
            worker=worker_id,
            breaker=options.breaker,
            meter=meter,
        )
        handler = handlers.running(
            concurrency=options.count, traces=traces or Traces(), queue_of=self._queue_of
        )
        self.core = CoreWorker(
            self.source,
            handler,
            WorkerOptions(
                concurrency=options.count,
                lease_s=options.work.heartbeat_ttl_s,
                timeout_s=options.timeout_s,
                grace_s=options.grace_s,
                wait_s=options.work.wait_s,
            ),
            listener=meter,
        )
        self._running: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """The worker's name, as its list and its heartbeat have it."""
        return self.source.worker

    def duties(self) -> Sequence[Loop]:
        """What goes on beside the work, for whoever runs the process."""
        client, keys, options = self._store.redis, self.keys, self._options
        reaper = Reaper(client, keys, options.work, options.reaper, metrics=self.metrics)

        async def promote_due() -> None:
            await upkeep.promote_due(client, keys, options.work)

        async def sample_lengths() -> None:
            await upkeep.sample_lengths(client, keys, self.metrics)

        return [
            Loop(reaper.reap, every_s=options.reaper.interval_s, jitter=0.25),
            Loop(promote_due, every_s=PROMOTE_S),
            Loop(sample_lengths, every_s=options.sample_s),
        ]

    async def readiness(self) -> dict[str, bool]:
        """What has to be well before work should be sent here."""
        try:
            with faults.told():
                beats = await self._store.redis.exists(self.keys.of(self.id).heartbeat)
            reachable = True
        except StoreError:
            beats, reachable = 0, False
        breakers = (each for each in self.source.gates.breakers if each)
        return {
            "store": reachable,
            "heartbeat": bool(beats),
            "breakers": all(each.state is not State.OPEN for each in breakers),
        }

    async def __aenter__(self) -> Self:
        await self.source.open()
        self._running = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.core.stop()
        if self._running:
            await self._running
        await self.source.close()

    async def _work(self) -> None:
        rounds = [asyncio.create_task(duty.run(), name=duty.name) for duty in self.duties()]
        try:
            await self.core.run()
        finally:
            for each in rounds:
                each.cancel()

    def _queue_of(self, job: Job) -> str:
        return self.keys.queues[self.keys.lane_of(job.origin_queue, job.priority) - 1]
