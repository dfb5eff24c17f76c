"""The worker: runs the jobs that fit it with a handler for each type."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias, Unpack

from waystation.core import identity
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.durations import milliseconds
from waystation.core.errors import InvalidOption, NoHandler
from waystation.core.line.background import BackgroundWorker, WorkerRuntime
from waystation.core.options import at_least, check_fields, checked, of_kind, with_keywords
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import end
from waystation.core.runtime.worker import Listener
from waystation.core.runtime.worker import Worker as CoreWorker
from waystation.core.runtime.worker import WorkerOptions as CoreWorkerOptions
from waystation.core.runtime.worklog import WorkLog
from waystation.core.shared import Shared
from waystation.core.store.client import place_of, stores
from waystation.core.store.commands import newest_id, read_on
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import reconnecting
from waystation.core.store.script import texts
from waystation.core.telemetry.traces import Traces
from waystation.routing.job import Job
from waystation.routing.keywords import WorkerKeywords
from waystation.routing.redis.keys import NAMESPACE, RoutingKeys, checked_type
from waystation.routing.registry import Profile
from waystation.routing.source import ClaimOptions, RoutingSource
from waystation.routing.upkeep import SchedulerOptions, share_scheduler

JobHandler: TypeAlias = Callable[[Any], Any]
"""Takes the job and returns a JSON value."""


class WorkerOptions(CoreWorkerOptions, frozen=True, kw_only=True):
    """How a worker works, and which jobs fit it."""

    stack: str = "python"
    """The language or platform of its handlers."""
    region: str = ""
    """Where it runs."""
    capabilities: Sequence[str] = ()
    """What it can do; `*` stands for anything and `?` for one character, as in `video:*`."""
    process: bool = False
    """Whether plain `def` handlers run in processes instead of threads."""
    result_limit: int = PAYLOAD_LIMIT
    """Bytes of JSON that a result may have; a larger one fails its job."""
    scheduler: SchedulerOptions | None = SchedulerOptions()
    """How it does the upkeep while it leads; None leaves the upkeep to others."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self)
        at_least("result_limit", self.result_limit, 1)


@checked
class Worker(BackgroundWorker[Job]):
    """Runs the jobs that fit it; entering starts it, leaving lets it finish its jobs.

    Workers of a process with the same URL or store share its connections, one listener for
    wake-ups and one candidate for the upkeep.
    """

    def __init__(
        self,
        handlers: JobHandler | Mapping[str, JobHandler],
        url: str | Store | None = None,
        *,
        server: str | None = None,
        prefix: str = NAMESPACE,
        options: WorkerOptions | None = None,
        listener: Listener[Job] | None = None,
        **given: Unpack[WorkerKeywords],
    ) -> None:
        """Declare handlers by job type, or one for jobs of every type.

        `server` is the worker's name in the registry, which targets ask for; random without one.
        Keywords are the fields of `WorkerOptions` and count before `options`.
        """
        super().__init__(url)
        if not callable(handlers):
            of_kind("handlers by type", handlers, Mapping)
        if not handlers:
            raise InvalidOption("a worker needs a handler for at least one type, got none")
        of_kind("options", options := options or WorkerOptions(), WorkerOptions)
        self._options = options = with_keywords(options, given, of="a worker")
        self._keys = RoutingKeys(prefix)
        types = () if callable(handlers) else tuple(checked_type(type) for type in handlers)
        self._profile = Profile(
            server=server or identity.worker_name(),
            stack=options.stack,
            region=options.region,
            capabilities=tuple(options.capabilities),
            types=types,
        )
        self._handler = _ByType(handlers, process=options.process)
        self._listener = listener

    @property
    def server(self) -> str:
        """The worker's name in the registry, which targets ask for."""
        return self._profile.server

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        lease_ms = milliseconds(self._options.lease)
        claims = ClaimOptions(lease_ms=lease_ms, result_limit=self._options.result_limit)
        source = RoutingSource(store, self._keys, self._profile, claims)
        log = WorkLog(_about, server=str(store.address), product="routing", worker_id=self.server)
        worker = CoreWorker(source, self._handler, self._options, listener=self._listener, log=log)
        place = store, self._keys.namespace
        background = [partial(heed_cancellations, *place, worker)]
        if (scheduler := self._options.scheduler) is not None:
            background.append(partial(share_scheduler, *place, scheduler))
        return WorkerRuntime(worker, source, background=background)

    async def _connect(self) -> Store:
        self._place = place_of(self._url)
        return await stores.take(self._place)

    async def _disconnect(self, store: Store) -> None:
        await stores.give_back(self._place)

    def __repr__(self) -> str:
        return f"Worker({self.server!r})"


def _about(claim: Claim[Job]) -> dict[str, str]:
    return {"queue": claim.work.type}


_ANY = ""
"""Stands for every type where there is one handler for all; no job has it."""


class _ByType(Handler[Job]):
    """A handler for each type, each run in a span."""

    def __init__(
        self,
        handlers: JobHandler | Mapping[str, JobHandler],
        *,
        process: bool,
    ) -> None:
        super().__init__(self._run)
        self._traces = Traces()
        by_type = {_ANY: handlers} if callable(handlers) else handlers
        self._handlers = {type: handler_of(each, process=process) for type, each in by_type.items()}
        self._other = self._handlers.get(_ANY)

    async def _run(self, job: Job) -> Any:
        handler = self._handlers.get(job.type, self._other)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            raise NoHandler(f"no handler for jobs of type {job.type!r}; there are: {known}")
        if not self._traces.enabled:
            return await handler.run(job)
        with self._traces.span_for(job.type, job.id):
            return await handler.run(job)

    async def close(self) -> None:
        for handler in self._handlers.values():
            await handler.close()


Place: TypeAlias = tuple[Store, str]
"""The store that the workers use, and their namespace."""

_BLOCK_S = 10.0
"""A longer block would hide a connection that has died."""
_PAUSE_S = 1.0
"""Until it listens again after an error."""
_PAGE = 1000


class Cancellations:
    """The one listener of all workers at one place."""

    def __init__(self, place: Place) -> None:
        self._store, namespace = place
        self._keys = RoutingKeys(namespace)
        self._workers: set[CoreWorker[Job]] = set()
        self._heard = ""
        hearing = Loop(self.hear_cancellations, every_s=_PAUSE_S)
        self._listening = asyncio.create_task(hearing.run())

    @asynccontextmanager
    async def heeded_by(self, worker: CoreWorker[Job]) -> AsyncGenerator[None]:
        """Let a worker stop the handlers of cancelled jobs while inside."""
        self._workers.add(worker)
        try:
            yield
        finally:
            self._workers.discard(worker)

    async def close(self) -> None:
        """Stop listening."""
        await end([self._listening])

    async def hear_cancellations(self) -> None:
        """Stop what is cancelled, until something but a store that is away stands in the way."""
        await reconnecting(self._read_on)

    async def _read_on(self) -> None:
        # What was cancelled before anybody listened here is not held here.
        self._heard = self._heard or await newest_id(self._store.hot, self._keys.stopped)
        client = self._store.blocking(_BLOCK_S)
        try:
            while True:
                found = await read_on(
                    client, self._keys.stopped, self._heard, most=_PAGE, block_s=_BLOCK_S
                )
                for at, fields in found:
                    self._heard = at.decode()
                    self._stop(*texts([fields.get(b"id", b""), fields.get(b"token", b"")]))
        finally:
            await client.aclose()

    def _stop(self, id: str, token: str) -> None:
        for worker in self._workers:
            held = [claim for claim in worker.held if claim.id == id]
            # Cancelled, added again and claimed again by the same worker: the renewal tells it.
            if len(held) == 1 and held[0].token == token:
                worker.cancel(id)


async def heed_cancellations(store: Store, namespace: str, worker: CoreWorker[Job]) -> None:
    """Have a worker stop what is cancelled while it runs, until cancelled itself."""
    async with _listeners.using((store, namespace)) as listener, listener.heeded_by(worker):
        await asyncio.Event().wait()


async def _made(place: Place) -> Cancellations:
    return Cancellations(place)


_listeners = Shared(_made, Cancellations.close)
