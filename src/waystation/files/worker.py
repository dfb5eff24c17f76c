"""The worker: runs handlers for the files of a queue, with a reaper and other upkeep."""

from collections.abc import Sequence
from typing import Unpack

from waystation.core import identity
from waystation.core.breaker import State
from waystation.core.durations import seconds
from waystation.core.errors import StoreError
from waystation.core.line.background import BackgroundWorker, WorkerRuntime
from waystation.core.options import checked, of_kind, with_keywords
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.worker import Worker as CoreWorker
from waystation.core.runtime.worklog import WorkLog
from waystation.core.store.connection import Store
from waystation.core.telemetry.metrics import Metrics
from waystation.core.telemetry.traces import Traces
from waystation.files import upkeep
from waystation.files.claims import FileSource
from waystation.files.fetch import FetchPlanner
from waystation.files.handlers import FileHandler, Handlers, RunningHandlers, handlers_of
from waystation.files.job import Job
from waystation.files.keywords import WorkerKeywords
from waystation.files.metrics import Meter
from waystation.files.options import Layout, WorkerOptions, layout_of
from waystation.files.redis.keys import FileKeys
from waystation.files.upkeep import Reaper, UnmatchedSweep

_PROMOTE_S = 1.0


@checked
class Worker(BackgroundWorker[Job]):
    """Processes the files of a queue; entering starts it, leaving finishes what runs.

    `handlers` is a `Handlers` table, or one function for every file, which `process` runs in a
    process of its own. `name` is the worker's name in Redis, in logs and events. Further keywords
    are the fields of `WorkerOptions`; they count before `options`.
    """

    def __init__(
        self,
        handlers: Handlers | FileHandler,
        url: str | Store | None = None,
        *,
        prefix: str | None = None,
        layout: Layout | None = None,
        name: str | None = None,
        process: bool = False,
        options: WorkerOptions | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        **given: Unpack[WorkerKeywords],
    ) -> None:
        super().__init__(url)
        options = WorkerOptions() if options is None else options
        of_kind("options", options, WorkerOptions)
        self._options = options = with_keywords(options, given, of="a worker")
        self.name = name or identity.worker_name()
        self.keys = FileKeys(layout_of(prefix, layout))
        """The names of the queue's keys in Redis."""
        self._metrics = metrics or Metrics()
        self._planner: FetchPlanner | None = None
        self._handler = RunningHandlers(
            handlers_of(handlers, process=process),
            traces=traces or Traces(),
            queue_of=self._queue_of,
        )

    async def readiness(self) -> dict[str, bool]:
        """Conditions of sending work here: the store, the heartbeat and the circuit breakers."""
        try:
            store = await self._connected()
            beats = await store.ask("EXISTS", self.keys.of(self.name).heartbeat)
            reachable = True
        except StoreError:
            beats, reachable = 0, False
        breakers = (each for each in self._planner.breakers if each) if self._planner else ()
        return {
            "store": reachable,
            "heartbeat": bool(beats),
            "breakers": all(each.state is not State.OPEN for each in breakers),
        }

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        meter = Meter(self._metrics, self.keys.queues)
        source = FileSource(
            store,
            self.keys,
            self._options,
            worker=self.name,
            breaker=self._options.breaker,
            meter=meter,
            handles=self._handler.handles,
        )
        self._planner = source.planner
        log = WorkLog(
            source.about,
            server=str(store.address),
            product="files",
            worker_id=self.name,
            namespace=self.keys.prefix,
        )
        worker = CoreWorker(source, self._handler, self._options, listener=meter, log=log)
        return WorkerRuntime(worker, source, background=[duty.run for duty in self._duties(store)])

    def _duties(self, store: Store) -> Sequence[Loop]:
        client, keys, options = store.redis, self.keys, self._options
        reaper = Reaper(client, keys, options, options.reaper, metrics=self._metrics)
        unmatched = UnmatchedSweep(client, keys, options, worker=self.name, metrics=self._metrics)

        async def promote_due() -> None:
            await upkeep.promote_due(client, keys, options)

        async def sample_lengths() -> None:
            await upkeep.sample_lengths(client, keys, self._metrics)

        every_s = seconds(options.reaper.interval)
        return [
            Loop(reaper.reap, every_s=every_s, jitter=0.25),
            Loop(unmatched.sweep, every_s=every_s, jitter=0.25),
            Loop(promote_due, every_s=_PROMOTE_S),
            Loop(sample_lengths, every_s=seconds(options.sample)),
        ]

    def _queue_of(self, job: Job) -> str:
        return self.keys.queues[self.keys.lane_of(job.origin_queue, job.priority) - 1]

    def __repr__(self) -> str:
        return f"Worker({self.name!r})"
