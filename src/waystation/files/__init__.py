"""Files: a directory turned into jobs.

from waystation import files

async def index(job: files.Job) -> None:
    print(job.path.read_text())

async with files.Queue() as queue:
    await queue.add("report.pdf")

await files.Worker(index, concurrency=8).run()
"""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        # The queue and its jobs
        "queue": "Queue WorkerInfo",
        "job": "Job",
        "redis.lists": "State",
        "options": "QueueOptions Layout WorkerOptions ReaperOptions",
        "dead_letters": "DeadLetters DeadLetter JobError",
        "events": "Event",
        "reasons": "Reason",
        "waystation.core.durations": "Duration",
        "waystation.core.line.forecasts": (
            "Forecast DesiredWorkers Drain FailureLabel FailureLabels Slo"
        ),
        # Watching a directory
        "producer": "Producer ProducerOptions Tally",
        "directory.scan": "ScanOptions PathLike Skip",
        # Workers
        "worker": "Worker",
        "keywords": "WorkerKeywords",
        "handlers": "handler Handlers FileHandler is_cancelled registered",
        "waystation.core.breaker": "BreakerOptions",
        "waystation.core.telemetry.metrics": "Metrics",
        "waystation.core.telemetry.traces": "Traces WorkSpan",
        # The store
        "waystation.core.store.client": "open_store",
        "waystation.core.store.connection": "Store StoreOptions",
    },
)
