"""Jobs that ask for a kind of worker: by server, stack, capabilities and region."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.store.client import open_store
    from waystation.core.store.connection import Store, StoreOptions
    from waystation.routing.coverage import Covered
    from waystation.routing.job import Job, SyncJob
    from waystation.routing.limits import Limit
    from waystation.routing.options import BackoffRule, JobOptions, Retry
    from waystation.routing.queue import NewJob, Queue
    from waystation.routing.reasons import Reason, Why
    from waystation.routing.schedules import Schedule
    from waystation.routing.target import Target
    from waystation.routing.upkeep import Scheduler, SchedulerOptions
    from waystation.routing.worker import Worker, WorkerOptions

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
        "BackoffRule": "options",
        "Covered": "coverage",
        "Job": "job",
        "JobOptions": "options",
        "Limit": "limits",
        "NewJob": "queue",
        "Queue": "queue",
        "Reason": "reasons",
        "Retry": "options",
        "Schedule": "schedules",
        "Scheduler": "upkeep",
        "SchedulerOptions": "upkeep",
        "Store": "waystation.core.store.connection",
        "StoreOptions": "waystation.core.store.connection",
        "SyncJob": "job",
        "Target": "target",
        "Why": "reasons",
        "Worker": "worker",
        "WorkerOptions": "worker",
        "open_store": "waystation.core.store.client",
    },
)
