"""Jobs that ask for a kind of worker: by server, stack, capabilities and region."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.clock import Clock
    from waystation.core.durations import Duration
    from waystation.core.line.forecasts import (
        DesiredWorkers,
        Drain,
        FailureLabel,
        FailureLabels,
        Forecast,
        Slo,
    )
    from waystation.core.outcome import Done, Failed, Moved, Retried, Returned
    from waystation.core.runtime.claim import Claim, Refused, Settled
    from waystation.core.runtime.worker import Listener
    from waystation.core.store.client import open_store
    from waystation.core.store.connection import Store, StoreOptions
    from waystation.core.store.connection.durable import Durability
    from waystation.routing.coverage import Covered
    from waystation.routing.dead_letters import DeadLetters
    from waystation.routing.events import Event
    from waystation.routing.job import Job, SyncJob
    from waystation.routing.limits import Limit, Limits
    from waystation.routing.options import BackoffRule, JobKeywords, JobOptions, Retry
    from waystation.routing.queue import JobState, NewJob, Queue
    from waystation.routing.reasons import Lack, Reason, Why
    from waystation.routing.registry import WorkerInfo
    from waystation.routing.results import DeadLetter, JobError, Progress, Result
    from waystation.routing.schedules import Schedule, ScheduledJob, Schedules
    from waystation.routing.target import Target
    from waystation.routing.upkeep import Scheduler, SchedulerOptions
    from waystation.routing.worker import JobHandler, Worker, WorkerKeywords, WorkerOptions

__all__ = [  # noqa: RUF022  # In the order in which a reader needs them.
    # The queue and its jobs
    "Queue",
    "NewJob",
    "JobState",
    "Job",
    "SyncJob",
    "JobOptions",
    "JobKeywords",
    "Retry",
    "BackoffRule",
    "Target",
    "Schedule",
    "Limit",
    # Parts of the queue
    "DeadLetters",
    "Limits",
    "Schedules",
    # What the queue returns
    "Result",
    "Progress",
    "DeadLetter",
    "JobError",
    "Event",
    "Reason",
    "Lack",
    "Why",
    "Covered",
    "WorkerInfo",
    "ScheduledJob",
    "Forecast",
    "Drain",
    "DesiredWorkers",
    "FailureLabels",
    "FailureLabel",
    "Slo",
    # Workers
    "Worker",
    "WorkerOptions",
    "WorkerKeywords",
    "JobHandler",
    "Scheduler",
    "SchedulerOptions",
    "Listener",
    "Claim",
    "Refused",
    "Settled",
    "Done",
    "Failed",
    "Retried",
    "Returned",
    "Moved",
    # The store
    "open_store",
    "Store",
    "StoreOptions",
    "Durability",
    "Duration",
    "Clock",
]

__getattr__ = names_of(
    __name__,
    {
        "waystation.core.clock": "Clock",
        "waystation.core.durations": "Duration",
        "waystation.core.line.forecasts": (
            "DesiredWorkers Drain FailureLabel FailureLabels Forecast Slo"
        ),
        "waystation.core.outcome": "Done Failed Moved Retried Returned",
        "waystation.core.runtime.claim": "Claim Refused Settled",
        "waystation.core.runtime.worker": "Listener",
        "waystation.core.store.client": "open_store",
        "waystation.core.store.connection": "Store StoreOptions",
        "waystation.core.store.connection.durable": "Durability",
        "coverage": "Covered",
        "dead_letters": "DeadLetters",
        "events": "Event",
        "job": "Job SyncJob",
        "limits": "Limit Limits",
        "options": "BackoffRule JobKeywords JobOptions Retry",
        "queue": "JobState NewJob Queue",
        "reasons": "Lack Reason Why",
        "registry": "WorkerInfo",
        "results": "DeadLetter JobError Progress Result",
        "schedules": "Schedule ScheduledJob Schedules",
        "target": "Target",
        "upkeep": "Scheduler SchedulerOptions",
        "worker": "JobHandler Worker WorkerKeywords WorkerOptions",
    },
)
