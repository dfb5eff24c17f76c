"""Worker: runs a handler over the jobs of one queue."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias, Unpack, cast

import msgspec

from waystation.bullmq import upkeep
from waystation.bullmq.callbacks import Callbacks, Observed, Presence
from waystation.bullmq.fields import FAILING, is_plain, is_sealed, known, remember
from waystation.bullmq.job import Job, delay_until, queue_of, steps_of
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Retention, check_retention
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.scheduling import schedulers
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.bullmq.source import BackoffStrategy, BullSource, ClaimOptions, RetryPredicate
from waystation.bullmq.sync_job import SyncJob
from waystation.bullmq.terms import NONE, limit_of, warn_of_milliseconds, within
from waystation.bullmq.terms import Limit as TimeAllowed
from waystation.bullmq.worker_keywords import WorkerKeywords
from waystation.core import identity
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.durations import Duration, milliseconds, seconds
from waystation.core.errors import (
    Expired,
    InvalidOption,
    JobDelayed,
    KeyMissing,
    NoHandler,
    Unrecoverable,
)
from waystation.core.line.background import BackgroundWorker, WorkerRuntime
from waystation.core.options import at_least, check_fields, checked, with_keywords
from waystation.core.runtime.batches import Batching
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.handlers.time_limit import in_place_of_others
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import is_from_a_signal, leave_if_cancelled
from waystation.core.runtime.worker import Listener
from waystation.core.runtime.worker import Worker as CoreWorker
from waystation.core.runtime.worker import WorkerOptions as CoreOptions
from waystation.core.runtime.worklog import WorkLog
from waystation.core.store.commands import server_ms
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import reconnecting
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.traces import Traces, carrier_from_text

_log = get_logger(__name__)

JobHandler: TypeAlias = (
    Callable[[Job[Any, Any]], Any]
    | Callable[[SyncJob[Any, Any]], Any]
    | Callable[[list[Job[Any, Any]]], Any]
    | Callable[[list[SyncJob[Any, Any]]], Any]
)
"""Takes a job, or with `batch` a list of them; returns a JSON value, or one for each."""


_SECONDS = ["lease", "renew", "timeout", "poll", "batch_wait", "stalled_interval", "max_backoff"]


class WorkerOptions(CoreOptions, frozen=True, kw_only=True):
    """Options of a worker. What a job's own options say about backoff and removal counts first."""

    name: str | None = None
    """The worker's name in events, logs and lists; None makes one of host and process."""
    batch: int = 0
    """The handler takes lists of up to so many jobs, and `concurrency` counts lists; 0 means one
    job at a time."""
    batch_min: int = 1
    """So many jobs are waited for, with their locks renewed, while the worker has room for more."""
    batch_wait: Duration = 1.0
    """The longest that a job waits for its batch while a handler is free."""
    batch_by: Literal["group"] | None = None
    """With `group`, all jobs of a batch are of one group, as they were claimed in turn; those
    without a group are one, too."""
    process: bool = False
    """Runs plain handlers in processes instead of threads."""
    stalled_interval: Duration = 30.0
    """How often jobs are looked for whose workers have gone."""
    max_stalled: int = 1
    """How often a job may lose its worker before it fails."""
    max_started_attempts: int | None = None
    """How often a job may be started, whether its attempts ended or not; None means any number."""
    limiter: Limit | None = None
    """How many jobs may start in a stretch of time, over all workers that have a limiter."""
    backoff_strategy: BackoffStrategy | None = None
    """Decides the pause of backoffs that are neither `fixed` nor `exponential`."""
    retry_if: RetryPredicate | None = None
    """Takes the error of a failed attempt and its job; False fails the job for good."""
    repeat_strategy: RepeatStrategy | None = None
    """Decides when the next job of a scheduler with a pattern is due, instead of cron."""
    max_backoff: Duration = 3600.0
    """The longest pause of an exponential backoff."""
    remove_on_complete: Retention | None = None
    """Which completed jobs are kept; None keeps all."""
    remove_on_fail: Retention | None = None
    """Which failed jobs are kept; None keeps all."""
    result_limit: int = PAYLOAD_LIMIT
    """The most bytes of JSON that a result may have; a larger one fails its job."""
    metrics_points: int | None = None
    """For how many minutes the queue keeps the number of jobs that ended; None counts nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self)
        seconds(self.stalled_interval, "stalled_interval", above=0)
        seconds(self.max_backoff, "max_backoff", above=0)
        seconds(self.batch_wait, "batch_wait")
        for name in _SECONDS:
            if (given := getattr(self, name)) is not None:
                warn_of_milliseconds(name, given)
        at_least("max_stalled", self.max_stalled, 0)
        self._check_batch()
        check_retention("remove_on_complete", self.remove_on_complete)
        check_retention("remove_on_fail", self.remove_on_fail)

    def _check_batch(self) -> None:
        at_least("batch", self.batch, 0)
        if at_least("batch_min", self.batch_min, 1) > max(self.batch, 1):
            raise InvalidOption(
                f"batch_min must be at most batch, {self.batch}, got {self.batch_min}"
            )
        if self.batch_by and not self.batch:
            raise InvalidOption("batch_by needs a batch: say how many jobs one may have")


@checked
class Worker(Observed, BackgroundWorker[Job], QueueClient):
    """Runs the jobs of one queue; entering starts it, leaving lets it finish what it has begun.

    `handlers` is a callable that takes a job, or a mapping with one for each name of a job. An
    `async def` runs on the event loop and gets a `Job`; a plain function runs in a thread, or with
    `process=True` in a process, and gets a `SyncJob`, whose methods need no `await`. Options are a
    `WorkerOptions`, or its fields as keywords, which count before it.
    """

    def __init__(
        self,
        queue: str,
        handlers: JobHandler | Mapping[str, JobHandler],
        url: str | Store | None = None,
        *,
        prefix: str = PREFIX,
        options: WorkerOptions | None = None,
        listener: Listener[Job] | None = None,
        payloads: PayloadOptions | None = None,
        **given: Unpack[WorkerKeywords],
    ) -> None:
        super().__init__(queue, url, prefix=prefix)
        self._sealing = Sealing(payloads)
        self._options = options = merged_options(options, given)
        self.worker_name = options.name or identity.worker_name()
        self._callbacks = Callbacks(listener)
        self._is_closing = False
        self._traces = Traces()
        self._claims = claim_options(options, self.worker_name)
        self._handler = self._wrapped(handlers, options)

    @property
    def concurrency(self) -> int:
        """Handlers, or batches, that run at once; can be set while the worker runs."""
        return self._options.concurrency

    @concurrency.setter
    def concurrency(self, many: int) -> None:
        self._options = msgspec.structs.replace(self._options, concurrency=many)
        if self._runtime:
            self._runtime.worker.resize(many)

    def pause(self) -> None:
        """Claim no more jobs until resumed; this worker only, not its queue."""
        super().pause()
        self._callbacks.emit("paused")

    def resume(self) -> None:
        """Claim jobs again."""
        super().resume()
        self._callbacks.emit("resumed")

    def stop(self) -> None:
        """Finish the jobs that run, and end; `run` returns when it is done."""
        super().stop()
        if self._runtime and not self._is_closing:
            self._is_closing = True
            self._callbacks.emit("closing")

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        options = self._options
        callbacks = self._callbacks
        source = BullSource(
            store,
            self._keys,
            self._claims,
            progressed=callbacks.progressed,
            sealing=self._sealing,
        )
        log = WorkLog(
            _about,
            server=str(store.address),
            product="bullmq",
            queue=self.name,
            worker_id=self.worker_name,
        )
        worker = CoreWorker(
            source,
            self._handler,
            options,
            listener=callbacks,
            log=log,
            batching=_batching(options),
        )
        self._is_closing = False
        presence = Presence(source, callbacks)
        background = duties(store, self._keys, options, callbacks)
        return WorkerRuntime(
            worker,
            presence,
            background=[duty.run for duty in background],
            listening=[callbacks.calls],
        )

    def _wrapped(
        self, handler: JobHandler | Mapping[str, JobHandler], options: WorkerOptions
    ) -> Handler[Job]:
        process = options.process
        if isinstance(handler, Mapping):
            if options.batch:
                raise InvalidOption("a batch holds jobs of any name, so it takes one handler")
            named = cast(Mapping[str, JobHandler], handler)
            if not named:
                raise InvalidOption("a worker needs a handler for at least one name, got none")
            handlers = {name: handler_of(each, process=process) for name, each in named.items()}
            return self._prepared(_ByName(handlers))
        one = handler_of(handler, process=process, batch=options.batch)
        return self._prepared(one)

    def _prepared(self, handler: Handler[Job]) -> Handler[Job]:
        timeout = self._options.timeout
        return _Prepared(self.name, self._claims, self._traces, handler, self._sealing, timeout)


def merged_options(options: WorkerOptions | None, given: WorkerKeywords) -> WorkerOptions:
    """The options of a worker: keywords over `options`. Internal."""
    return with_keywords(options or WorkerOptions(), given, of="a worker")


def claim_options(options: WorkerOptions, worker_name: str) -> ClaimOptions:
    """The options as the source of work takes them. Internal."""
    return ClaimOptions(
        worker=worker_name,
        lock_duration=max(1, milliseconds(options.lease)),
        limiter=options.limiter,
        max_backoff=max(1, milliseconds(options.max_backoff)),
        strategy=options.backoff_strategy,
        retry_if=options.retry_if,
        repeat_strategy=options.repeat_strategy,
        max_started_attempts=options.max_started_attempts,
        remove_on_complete=options.remove_on_complete,
        remove_on_fail=options.remove_on_fail,
        result_limit=options.result_limit,
        metrics_points=options.metrics_points,
    )


def duties(
    store: Store, keys: QueueKeys, options: WorkerOptions, callbacks: Callbacks
) -> list[Loop]:
    """What every worker does for the whole queue while it is there. Internal."""
    interval_ms = max(1, milliseconds(options.stalled_interval))

    async def recover_stalled() -> None:
        stalled = await upkeep.recover_stalled(
            store.hot, keys, interval_ms=interval_ms, max_stalled=options.max_stalled
        )
        for id in stalled:
            callbacks.emit("stalled", id, "active")
        await schedulers.advance_overdue(store.hot, keys, strategy=options.repeat_strategy)

    async def wake_overdue() -> None:
        await upkeep.wake_overdue(store.hot, keys)

    return [
        Loop(recover_stalled, every_s=interval_ms / 1000, jitter=0),
        Loop(wake_overdue, every_s=seconds(options.poll)),
    ]


def _batching(options: WorkerOptions) -> Batching[Job]:
    return Batching(
        by=_group_of if options.batch_by == "group" else None,
        least=options.batch_min,
        wait_s=seconds(options.batch_wait),
    )


def _group_of(job: Job) -> bytes | None:
    # Where the job took its turn: what a Node producer has put into its options binds nobody.
    return known(job, b"gid")


def _about(claim: Claim[Job]) -> dict[str, str]:
    return {"job_name": claim.work.name}


class _ByName(Handler[Job]):
    """Handlers by the name of the job."""

    def __init__(self, handlers: Mapping[str, Handler[Job]]) -> None:
        super().__init__(self._run)
        self._handlers = handlers

    async def _run(self, job: Job) -> Any:
        handler = self._handlers.get(job.name)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            # Every worker of the queue gets jobs of any name, and a name is not there the next time
            # either: trying again would only hide it for a while.
            raise NoHandler(f"no handler for jobs named {job.name!r}; there are: {known}")
        return await handler.run(job)

    async def close(self) -> None:
        for handler in self._handlers.values():
            await handler.close()


class _Prepared(Handler[Job]):
    """A handler, with what happens to a job before it: its schedule, a deferred failure, traces."""

    def __init__(
        self,
        queue: str,
        options: ClaimOptions,
        traces: Traces,
        handler: Handler[Job],
        sealing: Sealing,
        timeout: Duration | None,
    ) -> None:
        super().__init__(self._run_batch if handler.batch else self._run, batch=handler.batch)
        self._sealing = sealing
        self._queue = queue
        self._options = options
        self._traces = traces
        self._handler = handler
        self._counts_starts = options.max_started_attempts is not None
        self._prepares = self._counts_starts or sealing.seals
        self._timeout_s = None if timeout is None else seconds(timeout)

    def _run(self, job: Job) -> Coroutine[Any, Any, Any]:
        # Nearly every job is of this kind, and passes no coroutine on its way to the handler.
        if not (self._prepares or self._traces.enabled) and is_plain(job):
            return self._handler.run(job)
        return self._run_prepared(job)

    async def _run_prepared(self, job: Job) -> Any:
        limit = await prepare(job, self._options)
        sealed = self._sealing.seals or is_sealed(job)
        attempt = self._opened(job) if sealed else self._attempt(job)
        if (reason := known(job, FAILING)) is not None:
            await undo(job, attempt, reason, self._timeout_s)
        return await (attempt if limit is None else within(limit, attempt))

    async def _opened(self, job: Job) -> Any:
        try:
            await self._sealing.open_data(job)
            return await self._sealing.result(self._queue, job, await self._attempt(job))
        except KeyMissing as error:
            await keep_for_another(job, error)

    def _attempt(self, job: Job) -> Coroutine[Any, Any, Any]:
        return self._traced(job) if self._traces.enabled else self._handler.run(job)

    async def _traced(self, job: Job) -> Any:
        carrier = carrier_from_text(job.options.telemetry or "{}")
        with self._traces.span_for(self._queue, job.id, carrier=carrier):
            return await self._handler.run(job)

    async def _run_batch(self, jobs: list[Job]) -> Any:
        outcomes: dict[str, Any] = {}
        for job in jobs:
            if self._counts_starts or not is_plain(job):
                try:
                    await prepare(job, self._options)
                    await self._open(job)
                    if (reason := known(job, FAILING)) is not None:
                        # Alone, because no other job is to be stopped where this one was.
                        await undo(job, self._handler.run([job]), reason, self._timeout_s)
                except Exception as error:
                    outcomes[job.id] = error
        runnable = [job for job in jobs if job.id not in outcomes]
        if runnable:
            results: Any = await self._handler.run(runnable)
            if not isinstance(results, Sequence) or isinstance(results, str | bytes):
                return results
            each = await self._sealed(runnable, list(cast(Sequence[Any], results)))
            if len(runnable) == len(jobs):
                return each
            outcomes |= dict(zip((job.id for job in runnable), each, strict=False))
        return [outcomes[job.id] for job in jobs if job.id in outcomes]

    async def _open(self, job: Job) -> None:
        try:
            await self._sealing.open_data(job)
        except KeyMissing as error:
            await keep_for_another(job, error)

    async def _sealed(self, jobs: list[Job], sealed: list[Any]) -> list[Any]:
        if not self._sealing.seals:
            return sealed
        for place, (job, result) in enumerate(zip(jobs, sealed, strict=False)):
            if not isinstance(result, BaseException):
                try:
                    sealed[place] = await self._sealing.result(self._queue, job, result)
                except Exception as error:
                    sealed[place] = error
        return sealed

    async def close(self) -> None:
        await self._handler.close()


# What happens to a claimed job before its handler runs

_TRY_AGAIN_S = 5.0
"""How long a job waits that this worker cannot run, until another one may have started."""
_UNDO_S = 60.0
"""How long a handler may take to come to where it was, if nobody has set a time limit."""


async def prepare(job: Job, options: ClaimOptions) -> TimeAllowed | None:
    """Advance the job's schedule; raise when it must fail without being run.

    Returns how long the attempt may take by the job's own terms.
    """
    if job.scheduler_id is not None:
        client, keys, *_ = queue_of(job)
        strategy = options.repeat_strategy
        # First, so that the schedule goes on even if this run of it fails. A store that is away
        # is waited for, here and below: a job fails by what its handler does.
        await reconnecting(lambda: schedulers.advance(client, keys, job, strategy=strategy))
    if known(job, FAILING) is not None:
        return None
    if (reason := job.deferred_failure) is not None:
        return fail(job, Unrecoverable(reason))
    most_started = options.max_started_attempts
    if most_started is not None and job.attempts_started > most_started:
        return fail(job, Unrecoverable("job started more than allowable limit"))
    if (terms := job.options.terms) == NONE:
        return None
    # The worker's clock may be another than the one by which the job was made.
    client = queue_of(job).client
    now = await reconnecting(lambda: server_ms(client)) if terms.ask_for_time else 0
    begun = job.attempts_started > 1
    try:
        return limit_of(terms, created_ms=job.created_ms, now_ms=now, has_begun=begun)
    except Expired as error:
        return fail(job, error)


class _LeftToAnother(JobDelayed):
    """The job was delayed for another worker, which can run it."""


async def keep_for_another(job: Job, error: KeyMissing) -> NoReturn:
    """Leave a job to a worker that has its key, as there are while keys are changed."""
    queue = queue_of(job)
    _log.warning("job_returned", job_id=job.id, queue=queue.keys.name, error=str(error))
    await leave_to_another(job, str(error))


async def leave_to_another(job: Job, reason: str) -> NoReturn:
    """Delay a job that this worker cannot run, for one that can."""
    await delay_until(job, round((time.time() + _TRY_AGAIN_S) * 1000))
    raise _LeftToAnother(reason)


async def undo(
    job: Job, attempt: Awaitable[Any], reason: bytes, timeout_s: float | None
) -> NoReturn:
    """Run a handler for what it has done to be undone, and fail the job for this reason."""
    own = job.options.terms.timeout
    limits = [each for each in (timeout_s, own and own / 1000) if each is not None]
    await _replayed(attempt, min(limits, default=_UNDO_S))
    steps = steps_of(job)
    if steps.changed:
        raise Unrecoverable(steps.changed)
    doubt = await steps.unwind()
    error = Unrecoverable(reason.decode("utf-8", "replace"))
    if doubt:
        error.add_note(f"if anything was to be undone of job {job.id}, it was not: {doubt}")
    elif job.stacktrace and str(error) in job.stacktrace[-1]:
        # Whoever reads the log wants to know where the job failed, not that it was undone.
        error.add_note(job.stacktrace[-1].rstrip("\n"))
    raise error


async def _replayed(attempt: Awaitable[Any], limit_s: float) -> None:
    """Run a handler until it ends, however it does; what it has registered by then is undone."""
    try:
        async with in_place_of_others(limit_s):
            # Steps that are not done raise, so it gets no further than it was.
            await attempt
    except asyncio.CancelledError:
        leave_if_cancelled()
    except (GeneratorExit, _LeftToAnother):
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and is_from_a_signal(error):
            raise


def fail(job: Job, error: Unrecoverable) -> None:
    """Fail a job without running it, or let it undo its steps first if it has done any."""
    if known(job, b"steps") is None and known(job, b"given") is None:
        raise error
    remember(job, {FAILING: str(error).encode()})
