"""The worker: a handler over one queue, in the manner BullMQ users know."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from waystation.bullmq import upkeep
from waystation.bullmq.job import Job
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Retention, check_retention
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.bullmq.source.callbacks import Callbacks, WorkerEvent
from waystation.bullmq.source.claims import BullSource
from waystation.bullmq.source.options import ClaimOptions, Strategy
from waystation.bullmq.source.preparing import prepare
from waystation.core import identity
from waystation.core.backoff import HOUR_MS
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.errors import InvalidOption, WorkError
from waystation.core.line.background import BackgroundWorker, WorkerRuntime
from waystation.core.options import at_least
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.worker import Listener, WorkerOptions
from waystation.core.runtime.worker import Worker as CoreWorker
from waystation.core.runtime.worklog import WorkLog
from waystation.core.store.connection import Store
from waystation.core.telemetry.traces import Traces, carrier_from_text

JobHandler: TypeAlias = Callable[[Any], Any]
"""Takes the job, or a list of them, and returns a JSON value, or one for each."""


class Worker(BackgroundWorker[Job], QueueClient):
    """Runs jobs of one queue; entering starts it, leaving lets it finish what it has begun.

    The handler takes a job, or there is one for each name; it runs on the loop, in a thread when it
    is a plain function, or in a process with `process`. Outside of the loop it takes a `SyncJob`,
    which has the same steps without `await`. With `batch` it takes lists of up to so
    many jobs; `concurrency` counts lists. Durations are milliseconds: `timeout` ends an attempt,
    `grace` is what running jobs get when the worker closes, `drain_delay` how long it waits at an
    empty queue before it looks again, `lock_renew_time` a third of the lock unless given. A job may
    lose its worker `max_stalled` times and be picked up `max_started_attempts` times. Whatever a
    job says itself about backoff and removal counts before what is said here. A result of more than
    `result_limit` bytes of JSON fails its job, as one that cannot be written does.
    """

    def __init__(
        self,
        name: str,
        handler: JobHandler | Mapping[str, JobHandler],
        url: str | Store | None = None,
        *,
        prefix: str = PREFIX,
        concurrency: int = 1,
        batch: int = 0,
        process: bool = False,
        timeout: int | None = None,
        worker_name: str | None = None,
        lock_duration: int = 30_000,
        lock_renew_time: int | None = None,
        stalled_interval: int = upkeep.STALLED_INTERVAL_MS,
        max_stalled: int = upkeep.MAX_STALLED,
        max_started_attempts: int | None = None,
        limiter: Limit | None = None,
        backoff_strategy: Strategy | None = None,
        repeat_strategy: RepeatStrategy | None = None,
        max_backoff: int = HOUR_MS,
        remove_on_complete: Retention | None = None,
        remove_on_fail: Retention | None = None,
        result_limit: int = PAYLOAD_LIMIT,
        metrics_points: int | None = None,
        drain_delay: int = 5_000,
        grace: int = 30_000,
        listener: Listener[Job] | None = None,
    ) -> None:
        super().__init__(name, url, prefix=prefix)
        for what, value, least in (
            ("lock_duration", lock_duration, 1),
            ("stalled_interval", stalled_interval, 1),
            ("max_stalled", max_stalled, 0),
            ("timeout", timeout, 1),
            ("drain_delay", drain_delay, 1),
            ("grace", grace, 0),
            ("lock_renew_time", lock_renew_time, 1),
        ):
            if value is not None:
                at_least(what, value, least)
        check_retention("remove_on_complete", remove_on_complete)
        check_retention("remove_on_fail", remove_on_fail)
        self.worker_name = worker_name or identity.worker_name()
        self._callbacks = Callbacks(listener)
        self._is_closing = False
        self._traces = Traces()
        self._stalled_interval = stalled_interval
        self._max_stalled = max_stalled
        self._claims = ClaimOptions(
            worker=self.worker_name,
            lock_duration=lock_duration,
            limiter=limiter,
            max_backoff=max_backoff,
            strategy=backoff_strategy,
            repeat_strategy=repeat_strategy,
            max_started_attempts=max_started_attempts,
            remove_on_complete=remove_on_complete,
            remove_on_fail=remove_on_fail,
            result_limit=result_limit,
            metrics_points=metrics_points,
        )
        self._options = WorkerOptions(
            concurrency=concurrency,
            lease=lock_duration / 1000,
            renew=(lock_renew_time or 0) / 1000,
            timeout=None if timeout is None else timeout / 1000,
            grace=grace / 1000,
            poll=drain_delay / 1000,
        )
        self._handler = self._wrapped(
            handler, concurrency=concurrency, process=process, batch=batch
        )

    def on(self, event: WorkerEvent, callback: Callable[..., Any]) -> None:
        """Call back when something happens here; other workers' jobs are told by QueueEvents.

        A coroutine is awaited behind those before it, while the worker goes on. What a callback
        raises is logged and told to the callbacks of `error`.
        """
        self._callbacks.on(event, callback)

    def once(self, event: WorkerEvent, callback: Callable[..., Any]) -> None:
        """Call back the next time that something happens, and never again."""
        self._callbacks.on(event, callback, once=True)

    def off(self, event: WorkerEvent, callback: Callable[..., Any]) -> bool:
        """Call back no more; False if nobody had asked for it."""
        return self._callbacks.off(event, callback)

    @property
    def concurrency(self) -> int:
        """Handlers, or batches, running at once; it may be set while the worker runs."""
        return self._options.concurrency

    @concurrency.setter
    def concurrency(self, many: int) -> None:
        self._options = msgspec.structs.replace(self._options, concurrency=many)
        if self._runtime:
            self._runtime.worker.resize(many)
        else:
            self._handler.resize(many)

    def pause(self) -> None:
        """Take no more jobs until resumed; this worker only, not its queue."""
        super().pause()
        self._callbacks.emit("paused")

    def resume(self) -> None:
        """Take jobs again."""
        super().resume()
        self._callbacks.emit("resumed")

    def stop(self) -> None:
        """Finish what was begun and end; `run` returns when it is done."""
        super().stop()
        if self._runtime and not self._is_closing:
            self._is_closing = True
            self._callbacks.emit("closing")

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        async def recover_stalled() -> None:
            stalled = await upkeep.recover_stalled(
                store.hot,
                self.keys,
                interval_ms=self._stalled_interval,
                max_stalled=self._max_stalled,
            )
            for id in stalled:
                self._callbacks.emit("stalled", id, "active")

        callbacks = self._callbacks
        source = BullSource(store, self.keys, self._claims, progressed=callbacks.progressed)
        duty = Loop(recover_stalled, every_s=self._stalled_interval / 1000, jitter=0)
        log = WorkLog(
            _about,
            server=str(store.address),
            line="bullmq",
            queue=self.name,
            worker_id=self.worker_name,
        )
        worker = CoreWorker(source, self._handler, self._options, listener=callbacks, log=log)
        self._is_closing = False
        return WorkerRuntime(worker, _Presence(source, callbacks), beside=[duty.run])

    def _wrapped(
        self,
        handler: JobHandler | Mapping[str, JobHandler],
        *,
        concurrency: int,
        process: bool,
        batch: int,
    ) -> Handler[Job]:
        if isinstance(handler, Mapping):
            if batch:
                raise InvalidOption("a batch holds jobs of any name, so it takes one handler")
            named = cast(Mapping[str, JobHandler], handler)
            if not named:
                raise InvalidOption("a worker needs a handler for at least one name, got none")
            handlers = {
                name: handler_of(each, concurrency=concurrency, process=process)
                for name, each in named.items()
            }
            return _Prepared(self, _ByName(handlers))
        return _Prepared(
            self, handler_of(handler, concurrency=concurrency, process=process, batch=batch)
        )

    async def prepare(self, job: Job) -> None:
        """What has to happen before a job's handler runs."""
        await prepare(job, self._claims)

    @property
    def counts_starts(self) -> bool:
        """Whether a job may be picked up only so often."""
        return self._claims.max_started_attempts is not None

    @property
    def traces(self) -> Traces:
        """Where the spans of this worker's jobs go."""
        return self._traces


def _about(claim: Claim[Job]) -> dict[str, str]:
    return {"job_name": claim.work.name}


class _ByName(Handler[Job]):
    """A handler for each name of a job."""

    def __init__(self, handlers: Mapping[str, Handler[Job]]) -> None:
        super().__init__(self._run)
        self._handlers = handlers

    async def _run(self, job: Job) -> Any:
        handler = self._handlers.get(job.name)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            raise WorkError(f"no handler for jobs named {job.name!r}; there are: {known}")
        return await handler.run(job)

    def resize(self, concurrency: int) -> None:
        for handler in self._handlers.values():
            handler.resize(concurrency)

    async def close(self) -> None:
        for handler in self._handlers.values():
            await handler.close()


class _Prepared(Handler[Job]):
    """A handler with what comes before it: a schedule advanced, a failure that was put off."""

    def __init__(self, worker: Worker, handler: Handler[Job]) -> None:
        super().__init__(self._run_batch if handler.batch else self._run, batch=handler.batch)
        self._worker = worker
        self._handler = handler
        self._counts_starts = worker.counts_starts

    async def _run(self, job: Job) -> Any:
        if self._counts_starts or not job.is_plain:
            await self._worker.prepare(job)
        if self._worker.traces.enabled:
            return await self._traced(job)
        return await self._handler.run(job)

    async def _traced(self, job: Job) -> Any:
        carrier = carrier_from_text(job.opts.telemetry or "{}")
        with self._worker.traces.span_for(self._worker.name, job.id, carrier=carrier):
            return await self._handler.run(job)

    async def _run_batch(self, jobs: list[Job]) -> Any:
        outcomes: dict[str, Any] = {}
        for job in jobs:
            if self._counts_starts or not job.is_plain:
                try:
                    await self._worker.prepare(job)
                except Exception as error:
                    outcomes[job.id] = error
        runnable = [job for job in jobs if job.id not in outcomes]
        if runnable:
            results: Any = await self._handler.run(runnable)
            if len(runnable) == len(jobs) or not isinstance(results, list):
                return results
            each = cast(list[Any], results)
            outcomes |= dict(zip((job.id for job in runnable), each, strict=False))
        return [outcomes[job.id] for job in jobs if job.id in outcomes]

    def resize(self, concurrency: int) -> None:
        self._handler.resize(concurrency)

    async def close(self) -> None:
        await self._handler.close()


class _Presence:
    """A worker among the queue's workers, and what its listeners hear of that."""

    def __init__(self, source: BullSource, callbacks: Callbacks) -> None:
        self._source = source
        self._callbacks = callbacks
        self._is_open = False

    async def open(self) -> None:
        await self._source.open()
        self._is_open = True
        self._callbacks.emit("ready")

    async def close(self) -> None:
        await self._source.close()
        if self._is_open:
            self._callbacks.emit("closed")
        await self._callbacks.calls.finish()
