"""`waystation routing work` and `scheduler`: processes that run until asked to stop."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from waystation.core.app import compose
from waystation.core.app.settings import StoreSettings, TelemetrySettings, WorkerSettings
from waystation.core.errors import InvalidOption
from waystation.core.runtime.metered import Metered, MeteredApart
from waystation.core.runtime.service import serve, until_asked_to_stop
from waystation.core.runtime.tasks import end
from waystation.core.settings.load import Settings
from waystation.core.telemetry.logs import get_logger
from waystation.routing import (
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
        meters = {type: Metered(telemetry.metrics, product="routing", queue=type) for type in named}
        worker = Worker(
            named,
            store,
            server=offered.server,
            prefix=offered.namespace,
            options=options,
            listener=MeteredApart(telemetry.metrics, lambda claim: meters[claim.work.type]),
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
