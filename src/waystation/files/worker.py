"""The worker: handlers over the queues of one line, with its reaper and its duties beside it."""

from collections.abc import Sequence

import msgspec

from waystation.core import identity
from waystation.core.breaker import BreakerOptions, State
from waystation.core.errors import InvalidOption, StoreError
from waystation.core.line.background import BackgroundWorker, WorkerRuntime
from waystation.core.options import of_kind
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.worker import Worker as CoreWorker
from waystation.core.runtime.worker import WorkerOptions
from waystation.core.runtime.worklog import WorkLog
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.telemetry.metrics import Metrics
from waystation.core.telemetry.traces import Traces
from waystation.files.claims import FileSource
from waystation.files.fetch.plan import Gates
from waystation.files.handlers import Handlers, registered
from waystation.files.job import Job
from waystation.files.metrics import Meter
from waystation.files.options import Layout, ReaperOptions, WorkOptions
from waystation.files.redis.keys import FileKeys
from waystation.files.upkeep import reaper as upkeep
from waystation.files.upkeep.reaper import Reaper
from waystation.files.upkeep.unmatched import Unhandled

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


class Worker(BackgroundWorker[Job]):
    """Works on files; entering starts it, leaving lets it finish what it has begun."""

    def __init__(
        self,
        handlers: Handlers = registered,
        url: str | Store | None = None,
        *,
        layout: Layout | None = None,
        options: FileWorkerOptions | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        worker_id: str | None = None,
    ) -> None:
        super().__init__(url)
        of_kind("handlers", handlers, Handlers)
        if not handlers.rules:
            raise InvalidOption(
                "a worker needs a handler, such as @files.handler('**/*'), got none"
            )
        self.id = worker_id or identity.worker_name()
        """The worker's name, as its list and its heartbeat have it."""
        self.keys = FileKeys(layout)
        self._options = options = options or FileWorkerOptions()
        of_kind("options", options, FileWorkerOptions)
        self._metrics = metrics or Metrics()
        self._gates: Gates | None = None
        self._handler = handlers.running(
            concurrency=options.count, traces=traces or Traces(), queue_of=self._queue_of
        )

    async def readiness(self) -> dict[str, bool]:
        """What has to be well before work should be sent here."""
        try:
            with faults.translated():
                redis = (await self._connected()).redis
                beats = await redis.exists(self.keys.of(self.id).heartbeat)
            reachable = True
        except StoreError:
            beats, reachable = 0, False
        breakers = (each for each in self._gates.breakers if each) if self._gates else ()
        return {
            "store": reachable,
            "heartbeat": bool(beats),
            "breakers": all(each.state is not State.OPEN for each in breakers),
        }

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        options = self._options
        meter = Meter(self._metrics, self.keys.queues)
        source = FileSource(
            store,
            self.keys,
            options.work,
            worker=self.id,
            breaker=options.breaker,
            meter=meter,
            handles=self._handler.handles,
        )
        self._gates = source.gates
        worker = CoreWorker(
            source,
            self._handler,
            WorkerOptions(
                concurrency=options.count,
                lease=options.work.heartbeat_ttl_s,
                timeout=options.timeout_s,
                grace=options.grace_s,
                poll=options.work.wait_s,
            ),
            listener=meter,
            log=WorkLog(source.about, server=str(store.address), line="files", worker_id=self.id),
        )
        return WorkerRuntime(worker, source, beside=[duty.run for duty in self._duties(store)])

    def _duties(self, store: Store) -> Sequence[Loop]:
        client, keys, options = store.redis, self.keys, self._options
        reaper = Reaper(client, keys, options.work, options.reaper, metrics=self._metrics)
        unhandled = Unhandled(client, keys, options.work, worker=self.id, metrics=self._metrics)

        async def promote_due() -> None:
            await upkeep.promote_due(client, keys, options.work)

        async def sample_lengths() -> None:
            await upkeep.sample_lengths(client, keys, self._metrics)

        return [
            Loop(reaper.reap, every_s=options.reaper.interval_s, jitter=0.25),
            Loop(unhandled.give_up, every_s=options.reaper.interval_s, jitter=0.25),
            Loop(promote_due, every_s=PROMOTE_S),
            Loop(sample_lengths, every_s=options.sample_s),
        ]

    def _queue_of(self, job: Job) -> str:
        return self.keys.queues[self.keys.lane_of(job.origin_queue, job.priority) - 1]

    def __repr__(self) -> str:
        return f"Worker({self.id!r})"
