"""BullMQ in Python: what Node writes we read, and the other way round."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.store.attached import open_store
    from waystation.core.store.connection import Store, StoreOptions

    from .adding import NewJob, NotAdded
    from .errors import (
        DelayedError,
        RateLimitError,
        UnreadableData,
        UnrecoverableError,
        WaitingChildrenError,
        WaitingError,
    )
    from .event import QueueEvent
    from .events import QueueEvents, QueueEventsProducer
    from .finishes import JobFailed
    from .flows import FlowJob, FlowNode, FlowProducer
    from .gaps import Gap
    from .job import Job
    from .limits import Limit
    from .manual import ManualWorker
    from .options import Backoff, Deduplication, JobOptions, Keep, Parent
    from .queue import Queue
    from .schedule import Schedule, Scheduler
    from .sync_job import SyncJob
    from .worker import Worker

__all__ = [
    "Backoff",
    "Deduplication",
    "DelayedError",
    "FlowJob",
    "FlowNode",
    "FlowProducer",
    "Gap",
    "Job",
    "JobFailed",
    "JobOptions",
    "Keep",
    "Limit",
    "ManualWorker",
    "NewJob",
    "NotAdded",
    "Parent",
    "Queue",
    "QueueEvent",
    "QueueEvents",
    "QueueEventsProducer",
    "RateLimitError",
    "Schedule",
    "Scheduler",
    "Store",
    "StoreOptions",
    "SyncJob",
    "UnreadableData",
    "UnrecoverableError",
    "WaitingChildrenError",
    "WaitingError",
    "Worker",
    "open_store",
]

__getattr__ = names_of(
    __name__,
    {
        "Backoff": "options",
        "Deduplication": "options",
        "DelayedError": "errors",
        "FlowJob": "flows",
        "FlowNode": "flows",
        "FlowProducer": "flows",
        "Gap": "gaps",
        "Job": "job",
        "JobFailed": "finishes",
        "JobOptions": "options",
        "Keep": "options",
        "Limit": "limits",
        "ManualWorker": "manual",
        "NewJob": "adding",
        "NotAdded": "adding",
        "Parent": "options",
        "Queue": "queue",
        "QueueEvent": "event",
        "QueueEvents": "events",
        "QueueEventsProducer": "events",
        "RateLimitError": "errors",
        "Schedule": "schedule",
        "Scheduler": "schedule",
        "Store": "waystation.core.store.connection",
        "StoreOptions": "waystation.core.store.connection",
        "SyncJob": "sync_job",
        "UnreadableData": "errors",
        "UnrecoverableError": "errors",
        "WaitingChildrenError": "errors",
        "WaitingError": "errors",
        "Worker": "worker",
        "open_store": "waystation.core.store.attached",
    },
)
