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
    from waystation.routing.reasons import Reason, Why
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
        "Queue": "queue",
        "NewJob": "queue",
        "JobState": "queue",
        "Job": "job",
        "SyncJob": "job",
        "JobOptions": "options",
        "JobKeywords": "options",
        "Retry": "options",
        "BackoffRule": "options",
        "Target": "target",
        "Schedule": "schedules",
        "Limit": "limits",
        "DeadLetters": "dead_letters",
        "Limits": "limits",
        "Schedules": "schedules",
        "Result": "results",
        "Progress": "results",
        "DeadLetter": "results",
        "JobError": "results",
        "Event": "events",
        "Reason": "reasons",
        "Why": "reasons",
        "Covered": "coverage",
        "WorkerInfo": "registry",
        "ScheduledJob": "schedules",
        "Forecast": "waystation.core.line.forecasts",
        "Drain": "waystation.core.line.forecasts",
        "DesiredWorkers": "waystation.core.line.forecasts",
        "FailureLabels": "waystation.core.line.forecasts",
        "FailureLabel": "waystation.core.line.forecasts",
        "Slo": "waystation.core.line.forecasts",
        "Worker": "worker",
        "WorkerOptions": "worker",
        "WorkerKeywords": "worker",
        "JobHandler": "worker",
        "Scheduler": "upkeep",
        "SchedulerOptions": "upkeep",
        "Listener": "waystation.core.runtime.worker",
        "Claim": "waystation.core.runtime.claim",
        "Refused": "waystation.core.runtime.claim",
        "Settled": "waystation.core.runtime.claim",
        "Done": "waystation.core.outcome",
        "Failed": "waystation.core.outcome",
        "Retried": "waystation.core.outcome",
        "Returned": "waystation.core.outcome",
        "Moved": "waystation.core.outcome",
        "open_store": "waystation.core.store.client",
        "Store": "waystation.core.store.connection",
        "StoreOptions": "waystation.core.store.connection",
        "Durability": "waystation.core.store.connection.durable",
        "Duration": "waystation.core.durations",
        "Clock": "waystation.core.clock",
    },
)
