"""Jobs that ask for a kind of worker: by server, stack, capabilities and region."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.store.attached import open_store
    from waystation.core.store.connection import Store, StoreOptions

    from .coverage import Covered
    from .job import Job, JobOptions, SyncJob
    from .limits import Limit
    from .queue import NewJob, Queue
    from .reasons import Reason, Why
    from .retry import BackoffRule, Retry
    from .schedule import Schedule
    from .scheduler import Scheduler, SchedulerOptions
    from .target import Target
    from .worker import Worker, WorkerOptions

__all__ = [
    "BackoffRule",
    "Covered",
    "Job",
    "JobOptions",
    "Limit",
    "NewJob",
    "Queue",
    "Reason",
    "Retry",
    "Schedule",
    "Scheduler",
    "SchedulerOptions",
    "Store",
    "StoreOptions",
    "SyncJob",
    "Target",
    "Why",
    "Worker",
    "WorkerOptions",
    "open_store",
]

__getattr__ = names_of(
    __name__,
    {
        "BackoffRule": "retry",
        "Covered": "coverage",
        "Job": "job",
        "JobOptions": "job",
        "Limit": "limits",
        "NewJob": "queue",
        "Queue": "queue",
        "Reason": "reasons",
        "Retry": "retry",
        "Schedule": "schedule",
        "Scheduler": "scheduler",
        "SchedulerOptions": "scheduler",
        "Store": "waystation.core.store.connection",
        "StoreOptions": "waystation.core.store.connection",
        "SyncJob": "job",
        "Target": "target",
        "Why": "reasons",
        "Worker": "worker",
        "WorkerOptions": "worker",
        "open_store": "waystation.core.store.attached",
    },
)
