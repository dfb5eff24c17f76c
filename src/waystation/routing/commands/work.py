"""`waystation routing work` and `scheduler`: processes that run until asked to stop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from waystation.core.app import compose
from waystation.core.app.settings import StoreSettings, TelemetrySettings, WorkerSettings
from waystation.core.errors import InvalidOption, StoreError
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.runtime.metered import Metered
from waystation.core.runtime.service import serve, until_asked_to_stop
from waystation.core.runtime.tasks import end
from waystation.core.settings.load import Settings
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.routing import (
    Job,
    JobHandler,
    Scheduler,
    Worker,
    WorkerOptions,
)
from waystation.routing.settings import RoutingSettings

_log = get_logger(__name__)
T = TypeVar("T")


async def run(
    handlers: JobHandler | Mapping[str, JobHandler],
    settings: Settings,
    *,
    types: Sequence[str] = (),
    process: bool = False,
) -> None:
    """Work until asked to stop."""
    named, offered = _by_type(handlers, types), settings[RoutingSettings]
    options = WorkerOptions(
        **msgspec.structs.asdict(offered.worker),
        stack=offered.stack,
        region=offered.region,
        capabilities=offered.capabilities,
        process=process,
        scheduler=offered.scheduler if offered.scheduler.enabled else None,
    )
    async with (
        compose.telemetry(settings[TelemetrySettings], queues=list(named)) as telemetry,
        compose.store(settings[StoreSettings], wait_s=settings[StoreSettings].wait) as store,
    ):
        worker = Worker(
            named,
            store,
            server=offered.server,
            prefix=offered.namespace,
            options=options,
            listener=_MeteredByType(telemetry.metrics, list(named)),
        )
        telemetry.health.watch(store, [worker])
        await serve([worker], watchdog_s=settings[WorkerSettings].watchdog)


async def schedule(settings: Settings, *, namespace: str) -> None:
    """Run a scheduler until asked to stop; one of all that run leads."""
    options = settings[RoutingSettings].scheduler
    async with (
        compose.telemetry(settings[TelemetrySettings]) as telemetry,
        compose.store(settings[StoreSettings], wait_s=settings[StoreSettings].wait) as store,
    ):
        scheduler = Scheduler(store, prefix=namespace, options=options)
        candidate = asyncio.create_task(scheduler.run())
        telemetry.health.watch(store)
        _log.info("scheduler_started", worker_id=scheduler.name, product="routing")
        await until_asked_to_stop()
        await end([candidate])


def _by_type(
    handlers: JobHandler | Mapping[str, JobHandler], types: Sequence[str]
) -> dict[str, JobHandler]:
    if not isinstance(handlers, Mapping):
        if not types:
            raise InvalidOption("a single function needs --type, which says what jobs it is for")
        return dict.fromkeys(types, handlers)
    named = cast(Mapping[str, JobHandler], handlers)
    missing = [type for type in types if type not in named]
    if missing:
        raise InvalidOption(f"wanted types out of {', '.join(named)}, got {', '.join(missing)}")
    return {type: named[type] for type in types or named}


class _MeteredByType:
    """Counts what a worker does, each type by itself."""

    def __init__(self, metrics: Metrics, types: Sequence[str]) -> None:
        self._meters = {type: Metered(metrics, product="routing", queue=type) for type in types}

    def claimed(self, claims: Sequence[Claim[Job]]) -> None:
        self._each(claims, lambda claim: claim, Metered.claimed)

    def settled(self, settled: Sequence[Settled[Job]]) -> None:
        self._each(settled, lambda each: each.claim, Metered.settled)

    def refused(self, refused: Sequence[Refused[Job]]) -> None:
        self._each(refused, lambda each: each.claim, Metered.refused)

    def lost(self, claims: Sequence[Claim[Job]]) -> None:
        self._each(claims, lambda claim: claim, Metered.lost)

    def troubled(self, error: StoreError) -> None:
        next(iter(self._meters.values())).troubled(error)

    def _each(
        self,
        things: Sequence[T],
        claim_of: Callable[[T], Claim[Job]],
        count: Callable[[Metered, Sequence[Any]], None],
    ) -> None:
        for type, meter in self._meters.items():
            theirs = [each for each in things if claim_of(each).work.type == type]
            if theirs:
                count(meter, theirs)
