"""What `waystation.routing` offers.

Written by `make docs` from the list next to it; do not edit.
"""

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
from waystation.core.store.connection.store import Durability
from waystation.routing.coverage import Covered
from waystation.routing.dead_letters import DeadLetters
from waystation.routing.events import Event
from waystation.routing.job import Job, SyncJob
from waystation.routing.keywords import JobKeywords, WorkerKeywords
from waystation.routing.limits import Limit, Limits
from waystation.routing.options import BackoffRule, JobOptions, Retry
from waystation.routing.queue import JobState, NewJob, Queue
from waystation.routing.reasons import Lack, Reason, Why
from waystation.routing.registry import WorkerInfo
from waystation.routing.results import DeadLetter, JobError, Progress, Result
from waystation.routing.schedules import Schedule, ScheduledJob, Schedules
from waystation.routing.target import Target
from waystation.routing.upkeep import Scheduler, SchedulerOptions
from waystation.routing.worker import JobHandler, Worker, WorkerOptions

__all__ = [
    "BackoffRule",
    "Claim",
    "Clock",
    "Covered",
    "DeadLetter",
    "DeadLetters",
    "DesiredWorkers",
    "Done",
    "Drain",
    "Durability",
    "Duration",
    "Event",
    "Failed",
    "FailureLabel",
    "FailureLabels",
    "Forecast",
    "Job",
    "JobError",
    "JobHandler",
    "JobKeywords",
    "JobOptions",
    "JobState",
    "Lack",
    "Limit",
    "Limits",
    "Listener",
    "Moved",
    "NewJob",
    "Progress",
    "Queue",
    "Reason",
    "Refused",
    "Result",
    "Retried",
    "Retry",
    "Returned",
    "Schedule",
    "ScheduledJob",
    "Scheduler",
    "SchedulerOptions",
    "Schedules",
    "Settled",
    "Slo",
    "Store",
    "StoreOptions",
    "SyncJob",
    "Target",
    "Why",
    "Worker",
    "WorkerInfo",
    "WorkerKeywords",
    "WorkerOptions",
    "open_store",
]
