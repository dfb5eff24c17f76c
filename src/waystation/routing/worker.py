"""A worker of this line: handlers by type, a place in the registry, a share in the upkeep."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from waystation.core import identity
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.durations import milliseconds
from waystation.core.errors import InvalidOption, Unrecoverable
from waystation.core.line.background import BackgroundWorker, WorkerRuntime
from waystation.core.options import at_least, listed, of_kind
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.worker import Listener, WorkerOptions
from waystation.core.runtime.worker import Worker as CoreWorker
from waystation.core.runtime.worklog import WorkLog
from waystation.core.store.client import place_of, stores
from waystation.core.store.connection import Store
from waystation.core.telemetry.traces import Traces
from waystation.routing.claims import ClaimOptions, RoutingSource
from waystation.routing.job import Job, checked_type
from waystation.routing.redis.keys import NAMESPACE, RoutingKeys
from waystation.routing.registry import Profile
from waystation.routing.upkeep import SchedulerOptions, share_scheduler

JobHandler: TypeAlias = Callable[[Any], Any]
"""Takes the job and returns a JSON value."""


class Worker(BackgroundWorker[Job]):
    """Runs the jobs that fit it; entering starts it, leaving lets it finish what it has begun.

    The workers of a process that are given the same URL, or the same store, share its connections,
    one listener for wake-ups and one candidate for the upkeep.
    """

    def __init__(
        self,
        handlers: Mapping[str, JobHandler],
        url: str | Store | None = None,
        *,
        server_id: str | None = None,
        stack: str = "python",
        region: str = "",
        capabilities: Sequence[str] = (),
        namespace: str = NAMESPACE,
        concurrency: int | None = None,
        options: WorkerOptions | None = None,
        process: bool = False,
        result_limit: int = PAYLOAD_LIMIT,
        scheduler: SchedulerOptions | None = SchedulerOptions(),  # noqa: B008
        listener: Listener[Job] | None = None,
    ) -> None:
        """Say what the worker offers; `scheduler=None` leaves the upkeep to others.

        `concurrency` is how many jobs run at once, one without it; it counts before `options`.
        """
        super().__init__(url)
        of_kind("handlers by type", handlers, Mapping)
        if not handlers:
            raise InvalidOption("a worker needs a handler for at least one type, got none")
        listed("capabilities", capabilities)
        self.keys = RoutingKeys(namespace)
        self.profile = Profile(
            server_id=server_id or identity.worker_name(),
            stack=stack,
            region=region,
            capabilities=tuple(capabilities),
            types=tuple(checked_type(type) for type in handlers),
        )
        of_kind("options", options := options or WorkerOptions(), WorkerOptions)
        if concurrency is not None:
            options = msgspec.structs.replace(options, concurrency=concurrency)
        self._options = options
        self._result_limit = at_least("result_limit", result_limit, 1)
        self._handler = _ByType(handlers, self._options.concurrency, process=process)
        self._scheduling = scheduler
        self._listener = listener

    @property
    def server_id(self) -> str:
        """The name under which the worker is known."""
        return self.profile.server_id

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        lease_ms = milliseconds(self._options.lease)
        claims = ClaimOptions(lease_ms=lease_ms, result_limit=self._result_limit)
        source = RoutingSource(store, self.keys, self.profile, claims)
        log = WorkLog(_about, server=str(store.address), line="routing", worker_id=self.server_id)
        worker = CoreWorker(source, self._handler, self._options, listener=self._listener, log=log)
        if self._scheduling is None:
            return WorkerRuntime(worker, source)
        share = partial(share_scheduler, store, self.keys.namespace, self._scheduling)
        return WorkerRuntime(worker, source, beside=[share])

    async def _connect(self) -> Store:
        self._place = place_of(self._url)
        return await stores.take(self._place)

    async def _disconnect(self, store: Store) -> None:
        await stores.give_back(self._place)

    def __repr__(self) -> str:
        return f"Worker({self.server_id!r})"


def _about(claim: Claim[Job]) -> dict[str, str]:
    return {"queue": claim.work.type}


class _ByType(Handler[Job]):
    """A handler for each type, each run in a span."""

    def __init__(
        self, handlers: Mapping[str, JobHandler], concurrency: int, *, process: bool
    ) -> None:
        super().__init__(self._run)
        self._traces = Traces()
        self._handlers = {
            type: handler_of(each, concurrency=concurrency, process=process)
            for type, each in handlers.items()
        }

    async def _run(self, job: Job) -> Any:
        handler = self._handlers.get(job.type)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            raise Unrecoverable(f"no handler for jobs of type {job.type!r}; there are: {known}")
        if not self._traces.enabled:
            return await handler.run(job)
        with self._traces.span_for(job.type, job.id):
            return await handler.run(job)

    async def close(self) -> None:
        for handler in self._handlers.values():
            await handler.close()
