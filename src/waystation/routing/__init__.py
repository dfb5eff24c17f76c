"""Jobs that ask for a kind of worker: by server, stack, capabilities and region."""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        # The queue and its jobs
        "queue": "Queue NewJob JobState",
        "job": "Job SyncJob",
        "options": "JobOptions Retry BackoffRule",
        "target": "Target",
        "waystation.core.durations": "Duration",
        # Parts of the queue
        "dead_letters": "DeadLetters",
        "limits": "Limits Limit",
        "schedules": "Schedules Schedule ScheduledJob",
        # What the queue returns
        "results": "Result Progress JobError DeadLetter",
        "events": "Event",
        "reasons": "Why Reason Lack",
        "coverage": "Covered",
        "registry": "WorkerInfo",
        "waystation.core.line.forecasts": (
            "Forecast DesiredWorkers Drain FailureLabel FailureLabels Slo"
        ),
        # Workers
        "worker": "Worker WorkerOptions JobHandler",
        "keywords": "JobKeywords WorkerKeywords",
        "upkeep": "Scheduler SchedulerOptions",
        "waystation.core.runtime.worker": "Listener",
        "waystation.core.runtime.claim": "Claim Settled Refused",
        "waystation.core.outcome": "Done Failed Moved Retried Returned",
        "waystation.core.clock": "Clock",
        # The store
        "waystation.core.store.client": "open_store",
        "waystation.core.store.connection": "Store StoreOptions",
        "waystation.core.store.connection.store": "Durability",
    },
)
