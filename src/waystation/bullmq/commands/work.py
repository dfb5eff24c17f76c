"""`waystation bullmq work`: a process with a worker for each queue."""

from collections.abc import Mapping, Sequence

from waystation.bullmq import Worker
from waystation.bullmq.settings import BullmqSettings
from waystation.bullmq.worker import JobHandler
from waystation.core.app import compose, fleet
from waystation.core.app.settings import StoreSettings, TelemetrySettings, WorkerSettings
from waystation.core.runtime.metered import Metered
from waystation.core.runtime.service import serve
from waystation.core.settings.load import Settings


async def run(
    handler: JobHandler | Mapping[str, JobHandler],
    queues: Sequence[str],
    settings: Settings,
    *,
    prefix: str,
) -> None:
    """Work until asked to stop."""
    place = settings[StoreSettings]
    watched = fleet.telemetry_of_this_process(settings[TelemetrySettings])
    # A handler that comes with a framework, such as Django, has the options of its site.
    payloads = getattr(handler, "payloads", None) or settings[BullmqSettings].payloads.options()
    async with (
        compose.telemetry(watched, queues=queues) as telemetry,
        compose.store(place, wait_s=place.wait) as store,
        fleet.membership(telemetry.metrics),
    ):
        workers = [
            Worker(
                queue,
                handler,
                store,
                prefix=prefix,
                options=settings[BullmqSettings].worker,
                payloads=payloads,
                listener=Metered(telemetry.metrics, product="bullmq", queue=queue),
            )
            for queue in dict.fromkeys(queues)
        ]
        telemetry.health.watch(store, workers)
        await serve(workers, watchdog_s=settings[WorkerSettings].watchdog)
