"""What a worker process of the bullmq line does until it is told to stop."""

from collections.abc import Mapping

from waystation.bullmq import Worker
from waystation.bullmq.worker import JobHandler
from waystation.core.app import compose
from waystation.core.app.settings import StoreSettings, TelemetrySettings, WorkerSettings
from waystation.core.durations import milliseconds
from waystation.core.runtime.metered import Metered
from waystation.core.runtime.service import serve
from waystation.core.settings.load import Settings


async def run(
    handler: JobHandler | Mapping[str, JobHandler],
    queue: str,
    settings: Settings,
    *,
    prefix: str,
    concurrency: int | None = None,
    process: bool = False,
    metrics_points: int | None = None,
) -> None:
    """Work until asked to stop."""
    async with (
        compose.telemetry(settings[TelemetrySettings], queues=[queue]) as telemetry,
        compose.store(settings[StoreSettings], wait_s=settings[StoreSettings].wait) as store,
    ):
        worker = Worker(
            queue,
            handler,
            store,
            prefix=prefix,
            concurrency=settings[WorkerSettings].concurrency
            if concurrency is None
            else concurrency,
            process=process,
            metrics_points=metrics_points,
            lock_duration=milliseconds(settings[WorkerSettings].lease),
            grace=milliseconds(settings[WorkerSettings].grace),
            listener=Metered(telemetry.metrics, line="bullmq", queue=queue),
        )
        await serve([worker], watchdog_s=settings[WorkerSettings].watchdog)
