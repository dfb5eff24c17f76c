"""What a worker process of the bullmq line does until it is told to stop."""

import asyncio
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from waystation.core.errors import InvalidOption
from waystation.core.runtime.metered import Metered
from waystation.core.runtime.service import calling_on_signals
from waystation.core.runtime.watch import Watchdog
from waystation.core.telemetry.logs import get_logger
from waystation.interfaces import compose
from waystation.interfaces.settings import Settings
from waystation.queues.bullmq import Worker
from waystation.queues.bullmq.worker import JobHandler

_log = get_logger(__name__)


async def run(
    handler: JobHandler | Mapping[str, JobHandler],
    queue: str,
    settings: Settings,
    *,
    prefix: str,
    concurrency: int | None = None,
    process: bool = False,
) -> None:
    """Work until the first signal, then finish what was begun; a second one ends it at once."""
    asked = asyncio.Event()
    async with (
        calling_on_signals(asked.set),
        compose.telemetry(settings.telemetry, queues=[queue]) as telemetry,
        compose.store(settings) as store,
        Watchdog(settings.worker.watchdog),
        Worker(
            queue,
            handler,
            store,
            prefix=prefix,
            concurrency=concurrency or settings.worker.concurrency,
            process=process,
            lock_duration=round(settings.worker.lease * 1000),
            grace=round(settings.worker.grace * 1000),
            listener=Metered(telemetry.metrics, line="bullmq", queue=queue),
        ) as worker,
    ):
        _log.info("the worker is ready", worker_id=worker.worker_name, line="bullmq", queue=queue)
        waiting = asyncio.create_task(asked.wait())
        # A worker that breaks must not leave a process behind that only looks alive.
        running = asyncio.create_task(worker.run())
        await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            await running


def handler_at(place: str) -> JobHandler | Mapping[str, JobHandler]:
    """Import what `module:name` names, also from the directory that the command runs in."""
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise InvalidOption(f"a handler is given as module:name, got {place!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        raise InvalidOption(f"{module_name!r} cannot be imported ({error})") from error
    if isinstance(found, Mapping):
        handlers = cast(Mapping[str, Any], found)
        if handlers and all(callable(each) for each in handlers.values()):
            return handlers
    elif callable(found):
        return found
    raise InvalidOption(
        f"{place} must be a function, or functions by the name of the job, got {found!r}"
    )
