"""What a worker process of the bullmq line does until it is told to stop."""

from collections.abc import Mapping

from waystation.bullmq import Worker
from waystation.bullmq.worker import JobHandler
from waystation.cli import compose
from waystation.cli.settings import Settings
from waystation.core.runtime.metered import Metered
from waystation.core.runtime.service import serve


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
        compose.telemetry(settings.telemetry, queues=[queue]) as telemetry,
        compose.store(settings, wait_s=settings.store.wait) as store,
    ):
        worker = Worker(
            queue,
            handler,
            store,
            prefix=prefix,
            concurrency=settings.worker.concurrency if concurrency is None else concurrency,
            process=process,
            metrics_points=metrics_points,
            lock_duration=round(settings.worker.lease * 1000),
            grace=round(settings.worker.grace * 1000),
            listener=Metered(telemetry.metrics, line="bullmq", queue=queue),
        )
        await serve([worker], watchdog_s=settings.worker.watchdog)
