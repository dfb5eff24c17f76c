"""BullMQ in Python: queues and workers on the wire of Node's BullMQ."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.bullmq.dead_letters import DeadLetters
    from waystation.bullmq.events.event import QueueEvent
    from waystation.bullmq.events.gaps import Gap
    from waystation.bullmq.events.stream import QueueEvents, QueueEventsProducer
    from waystation.bullmq.flows import FlowJob, FlowNode, FlowProducer
    from waystation.bullmq.job import Job
    from waystation.bullmq.limits import Limit, Limits
    from waystation.bullmq.manual import ManualKeywords, ManualWorker
    from waystation.bullmq.metrics import Metrics, MetricsKind
    from waystation.bullmq.options import (
        Backoff,
        Deduplication,
        JobKeywords,
        JobOptions,
        Keep,
        Parent,
        Retention,
        StoredOptions,
    )
    from waystation.bullmq.parts import Part
    from waystation.bullmq.payloads.blobs import Blob, Blobs, DirectoryBlobs
    from waystation.bullmq.payloads.options import PayloadOptions
    from waystation.bullmq.queue import Cleanable, Queue, Retryable
    from waystation.bullmq.redis.children import (
        ChildKind,
        ChildResult,
        DependencyCounts,
        DependencyPage,
    )
    from waystation.bullmq.redis.commands import Logs
    from waystation.bullmq.redis.packing import JobLike, NewJob
    from waystation.bullmq.schedulers import Schedulers
    from waystation.bullmq.scheduling.schedule import RepeatStrategy, Schedule, Scheduler
    from waystation.bullmq.source.callbacks import WorkerEvent, WorkerSignal
    from waystation.bullmq.source.options import BackoffStrategy, RetryPredicate
    from waystation.bullmq.states import JobState, State
    from waystation.bullmq.sync_job import SyncJob
    from waystation.bullmq.terms import Terms, When
    from waystation.bullmq.worker import JobHandler, Worker, WorkerKeywords, WorkerOptions
    from waystation.core.durations import Duration
    from waystation.core.errors import (
        Expired,
        JobDelayed,
        JobFailed,
        JobRateLimited,
        JobWaiting,
        JobWaitingForChildren,
        NotAdded,
        TimedOut,
        UnreadableData,
        Unrecoverable,
    )
    from waystation.core.line.forecasts import Forecast
    from waystation.core.runtime.claim import Claim
    from waystation.core.runtime.worker import Listener
    from waystation.core.store.client import open_store
    from waystation.core.store.connection import Store, StoreOptions
    from waystation.core.store.connection.durable import Durability

__all__ = [
    "Backoff",
    "BackoffStrategy",
    "Blob",
    "Blobs",
    "ChildKind",
    "ChildResult",
    "Claim",
    "Cleanable",
    "DeadLetters",
    "Deduplication",
    "DependencyCounts",
    "DependencyPage",
    "DirectoryBlobs",
    "Durability",
    "Duration",
    "Expired",
    "FlowJob",
    "FlowNode",
    "FlowProducer",
    "Forecast",
    "Gap",
    "Job",
    "JobDelayed",
    "JobFailed",
    "JobHandler",
    "JobKeywords",
    "JobLike",
    "JobOptions",
    "JobRateLimited",
    "JobState",
    "JobWaiting",
    "JobWaitingForChildren",
    "Keep",
    "Limit",
    "Limits",
    "Listener",
    "Logs",
    "ManualKeywords",
    "ManualWorker",
    "Metrics",
    "MetricsKind",
    "NewJob",
    "NotAdded",
    "Parent",
    "Part",
    "PayloadOptions",
    "Queue",
    "QueueEvent",
    "QueueEvents",
    "QueueEventsProducer",
    "RepeatStrategy",
    "Retention",
    "RetryPredicate",
    "Retryable",
    "Schedule",
    "Scheduler",
    "Schedulers",
    "State",
    "Store",
    "StoreOptions",
    "StoredOptions",
    "SyncJob",
    "Terms",
    "TimedOut",
    "UnreadableData",
    "Unrecoverable",
    "When",
    "Worker",
    "WorkerEvent",
    "WorkerKeywords",
    "WorkerOptions",
    "WorkerSignal",
    "open_store",
]

__getattr__ = names_of(
    __name__,
    {
        "Backoff": "options",
        "BackoffStrategy": "waystation.bullmq.source.options",
        "Blob": "waystation.bullmq.payloads.blobs",
        "Blobs": "waystation.bullmq.payloads.blobs",
        "ChildKind": "waystation.bullmq.redis.children",
        "ChildResult": "waystation.bullmq.redis.children",
        "Claim": "waystation.core.runtime.claim",
        "Cleanable": "queue",
        "DeadLetters": "dead_letters",
        "Deduplication": "options",
        "DependencyCounts": "waystation.bullmq.redis.children",
        "DependencyPage": "waystation.bullmq.redis.children",
        "DirectoryBlobs": "waystation.bullmq.payloads.blobs",
        "Durability": "waystation.core.store.connection.durable",
        "Duration": "waystation.core.durations",
        "Expired": "waystation.core.errors",
        "FlowJob": "flows",
        "FlowNode": "flows",
        "FlowProducer": "flows",
        "Forecast": "waystation.core.line.forecasts",
        "Gap": "waystation.bullmq.events.gaps",
        "Job": "job",
        "JobDelayed": "waystation.core.errors",
        "JobFailed": "waystation.core.errors",
        "JobHandler": "worker",
        "JobKeywords": "options",
        "JobLike": "waystation.bullmq.redis.packing",
        "JobOptions": "options",
        "JobRateLimited": "waystation.core.errors",
        "JobState": "states",
        "JobWaiting": "waystation.core.errors",
        "JobWaitingForChildren": "waystation.core.errors",
        "Keep": "options",
        "Limit": "limits",
        "Limits": "limits",
        "Listener": "waystation.core.runtime.worker",
        "Logs": "waystation.bullmq.redis.commands",
        "ManualKeywords": "manual",
        "ManualWorker": "manual",
        "Metrics": "metrics",
        "MetricsKind": "metrics",
        "NewJob": "waystation.bullmq.redis.packing",
        "NotAdded": "waystation.core.errors",
        "Parent": "options",
        "Part": "parts",
        "PayloadOptions": "waystation.bullmq.payloads.options",
        "Queue": "queue",
        "QueueEvent": "waystation.bullmq.events.event",
        "QueueEvents": "waystation.bullmq.events.stream",
        "QueueEventsProducer": "waystation.bullmq.events.stream",
        "RepeatStrategy": "waystation.bullmq.scheduling.schedule",
        "Retention": "options",
        "RetryPredicate": "waystation.bullmq.source.options",
        "Retryable": "queue",
        "Schedule": "waystation.bullmq.scheduling.schedule",
        "Scheduler": "waystation.bullmq.scheduling.schedule",
        "Schedulers": "schedulers",
        "State": "states",
        "Store": "waystation.core.store.connection",
        "StoreOptions": "waystation.core.store.connection",
        "StoredOptions": "options",
        "SyncJob": "sync_job",
        "Terms": "terms",
        "TimedOut": "waystation.core.errors",
        "UnreadableData": "waystation.core.errors",
        "Unrecoverable": "waystation.core.errors",
        "When": "terms",
        "Worker": "worker",
        "WorkerEvent": "waystation.bullmq.source.callbacks",
        "WorkerKeywords": "worker",
        "WorkerOptions": "worker",
        "WorkerSignal": "waystation.bullmq.source.callbacks",
        "open_store": "waystation.core.store.client",
    },
)
