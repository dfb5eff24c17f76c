"""Files: a directory turned into jobs.

from waystation import files

async def index(job: files.Job) -> None:
    print(job.path.read_text())

async with files.Queue() as queue:
    await queue.add("report.pdf")

await files.Worker(index, concurrency=8).run()
"""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.breaker import BreakerOptions
    from waystation.core.durations import Duration
    from waystation.core.line.forecasts import (
        DesiredWorkers,
        Drain,
        FailureLabel,
        FailureLabels,
        Forecast,
        Slo,
    )
    from waystation.core.store.client import open_store
    from waystation.core.store.connection import Store, StoreOptions
    from waystation.core.telemetry.metrics import Metrics
    from waystation.core.telemetry.traces import Traces, WorkSpan
    from waystation.files.dead_letters import DeadLetter, DeadLetters, JobError
    from waystation.files.directory.scan import PathLike, ScanOptions, Skip
    from waystation.files.events import Event
    from waystation.files.handlers import FileHandler, Handlers, handler, is_cancelled, registered
    from waystation.files.job import Job
    from waystation.files.options import (
        Layout,
        QueueOptions,
        ReaperOptions,
        WorkerKeywords,
        WorkerOptions,
    )
    from waystation.files.producer import Producer, ProducerOptions, Tally
    from waystation.files.queue import Queue, WorkerInfo
    from waystation.files.reasons import Reason
    from waystation.files.redis.lists import State
    from waystation.files.worker import Worker

__all__ = [
    "BreakerOptions",
    "DeadLetter",
    "DeadLetters",
    "DesiredWorkers",
    "Drain",
    "Duration",
    "Event",
    "FailureLabel",
    "FailureLabels",
    "FileHandler",
    "Forecast",
    "Handlers",
    "Job",
    "JobError",
    "Layout",
    "Metrics",
    "PathLike",
    "Producer",
    "ProducerOptions",
    "Queue",
    "QueueOptions",
    "ReaperOptions",
    "Reason",
    "ScanOptions",
    "Skip",
    "Slo",
    "State",
    "Store",
    "StoreOptions",
    "Tally",
    "Traces",
    "WorkSpan",
    "Worker",
    "WorkerInfo",
    "WorkerKeywords",
    "WorkerOptions",
    "handler",
    "is_cancelled",
    "open_store",
    "registered",
]

__getattr__ = names_of(
    __name__,
    {
        "waystation.core.breaker": "BreakerOptions",
        "waystation.core.durations": "Duration",
        "waystation.core.line.forecasts": (
            "DesiredWorkers Drain FailureLabel FailureLabels Forecast Slo"
        ),
        "waystation.core.store.client": "open_store",
        "waystation.core.store.connection": "Store StoreOptions",
        "waystation.core.telemetry.metrics": "Metrics",
        "waystation.core.telemetry.traces": "Traces WorkSpan",
        "dead_letters": "DeadLetter DeadLetters JobError",
        "directory.scan": "PathLike ScanOptions Skip",
        "events": "Event",
        "handlers": "FileHandler Handlers handler is_cancelled registered",
        "job": "Job",
        "options": "Layout QueueOptions ReaperOptions WorkerKeywords WorkerOptions",
        "producer": "Producer ProducerOptions Tally",
        "queue": "Queue WorkerInfo",
        "reasons": "Reason",
        "redis.lists": "State",
        "worker": "Worker",
    },
)
