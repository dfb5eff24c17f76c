"""BullMQ in Python: what Node writes we read, and the other way round."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.bullmq.events.event import QueueEvent
    from waystation.bullmq.events.gaps import Gap
    from waystation.bullmq.events.stream import QueueEvents, QueueEventsProducer
    from waystation.bullmq.flows import FlowJob, FlowNode, FlowProducer
    from waystation.bullmq.job import Job
    from waystation.bullmq.limits import Limit
    from waystation.bullmq.manual import ManualWorker
    from waystation.bullmq.options import Backoff, Deduplication, JobOptions, Keep, Parent
    from waystation.bullmq.queue import Queue
    from waystation.bullmq.redis.packing import NewJob
    from waystation.bullmq.scheduling.schedule import Schedule, Scheduler
    from waystation.bullmq.sync_job import SyncJob
    from waystation.bullmq.worker import Worker
    from waystation.core.errors import (
        JobDelayed,
        JobFailed,
        JobRateLimited,
        JobWaiting,
        JobWaitingForChildren,
        NotAdded,
        UnreadableData,
        Unrecoverable,
    )
    from waystation.core.store.client import open_store
    from waystation.core.store.connection import Store, StoreOptions

__all__ = [
    "Backoff",
    "Deduplication",
    "FlowJob",
    "FlowNode",
    "FlowProducer",
    "Gap",
    "Job",
    "JobDelayed",
    "JobFailed",
    "JobOptions",
    "JobRateLimited",
    "JobWaiting",
    "JobWaitingForChildren",
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
    "Schedule",
    "Scheduler",
    "Store",
    "StoreOptions",
    "SyncJob",
    "UnreadableData",
    "Unrecoverable",
    "Worker",
    "open_store",
]

__getattr__ = names_of(
    __name__,
    {
        "Backoff": "options",
        "Deduplication": "options",
        "JobDelayed": "waystation.core.errors",
        "FlowJob": "flows",
        "FlowNode": "flows",
        "FlowProducer": "flows",
        "Gap": "waystation.bullmq.events.gaps",
        "Job": "job",
        "JobFailed": "waystation.core.errors",
        "JobOptions": "options",
        "Keep": "options",
        "Limit": "limits",
        "ManualWorker": "manual",
        "NewJob": "waystation.bullmq.redis.packing",
        "NotAdded": "waystation.core.errors",
        "Parent": "options",
        "Queue": "queue",
        "QueueEvent": "waystation.bullmq.events.event",
        "QueueEvents": "waystation.bullmq.events.stream",
        "QueueEventsProducer": "waystation.bullmq.events.stream",
        "JobRateLimited": "waystation.core.errors",
        "Schedule": "waystation.bullmq.scheduling.schedule",
        "Scheduler": "waystation.bullmq.scheduling.schedule",
        "Store": "waystation.core.store.connection",
        "StoreOptions": "waystation.core.store.connection",
        "SyncJob": "sync_job",
        "UnreadableData": "waystation.core.errors",
        "Unrecoverable": "waystation.core.errors",
        "JobWaitingForChildren": "waystation.core.errors",
        "JobWaiting": "waystation.core.errors",
        "Worker": "worker",
        "open_store": "waystation.core.store.client",
    },
)
