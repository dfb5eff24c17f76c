"""What `waystation.bullmq` offers.

Written by `make docs` from the list next to it; do not edit.
"""

from waystation.bullmq.callbacks import WorkerEvent, WorkerSignal
from waystation.bullmq.dead_letters import DeadLetters
from waystation.bullmq.events.event import QueueEvent
from waystation.bullmq.events.gaps import Gap
from waystation.bullmq.events.stream import QueueEvents, QueueEventsProducer
from waystation.bullmq.flows import FlowJob, FlowNode, FlowProducer
from waystation.bullmq.groups import Groups, GroupSettings, GroupState
from waystation.bullmq.job import Job
from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.limits import Limit, Limits
from waystation.bullmq.manual import ManualWorker
from waystation.bullmq.metrics import Metrics, MetricsKind
from waystation.bullmq.options import (
    Backoff,
    Deduplication,
    Group,
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
from waystation.bullmq.source import BackoffStrategy, RetryPredicate
from waystation.bullmq.states import JobState, State
from waystation.bullmq.sync_job import SyncJob
from waystation.bullmq.terms import Terms, When
from waystation.bullmq.worker import JobHandler, Worker, WorkerOptions
from waystation.bullmq.worker_keywords import ManualKeywords, WorkerKeywords
from waystation.core.durations import Duration, DurationKeywords
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
from waystation.core.store.connection.store import Durability

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
    "DurationKeywords",
    "Expired",
    "FlowJob",
    "FlowNode",
    "FlowProducer",
    "Forecast",
    "Gap",
    "Group",
    "GroupSettings",
    "GroupState",
    "Groups",
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
