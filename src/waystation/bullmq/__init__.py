"""BullMQ in Python: what Node writes we read, and the other way round."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.bullmq.adding import NewJob
    from waystation.bullmq.errors import (
        DelayedError,
        RateLimitError,
        UnreadableData,
        UnrecoverableError,
        WaitingChildrenError,
        WaitingError,
    )
    from waystation.bullmq.event import QueueEvent
    from waystation.bullmq.events import QueueEvents, QueueEventsProducer
    from waystation.bullmq.flows import FlowJob, FlowNode, FlowProducer
    from waystation.bullmq.gaps import Gap
    from waystation.bullmq.job import Job
    from waystation.bullmq.limits import Limit
    from waystation.bullmq.manual import ManualWorker
    from waystation.bullmq.options import Backoff, Deduplication, JobOptions, Keep, Parent
    from waystation.bullmq.queue import Queue
    from waystation.bullmq.schedule import Schedule, Scheduler
    from waystation.bullmq.sync_job import SyncJob
    from waystation.bullmq.worker import Worker
    from waystation.core.errors import JobFailed, NotAdded
    from waystation.core.store.client import open_store
    from waystation.core.store.connection import Store, StoreOptions

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
        "JobFailed": "waystation.core.errors",
        "JobOptions": "options",
        "Keep": "options",
        "Limit": "limits",
        "ManualWorker": "manual",
        "NewJob": "adding",
        "NotAdded": "waystation.core.errors",
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
        "open_store": "waystation.core.store.client",
    },
)
