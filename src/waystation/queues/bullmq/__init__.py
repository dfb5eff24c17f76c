"""BullMQ in Python: what Node writes we read, and the other way round."""

from .adding import NewJob, NotAdded
from .claims import Limit
from .errors import (
    DelayedError,
    RateLimitError,
    UnrecoverableError,
    WaitingChildrenError,
    WaitingError,
)
from .event import QueueEvent
from .events import QueueEvents, QueueEventsProducer
from .finishes import JobFailed
from .flows import FlowJob, FlowNode, FlowProducer
from .job import Job
from .options import Backoff, Deduplication, JobOptions, Keep, Parent
from .queue import Queue
from .schedule import Schedule, Scheduler
from .worker import Worker

__all__ = [
    "Backoff",
    "Deduplication",
    "DelayedError",
    "FlowJob",
    "FlowNode",
    "FlowProducer",
    "Job",
    "JobFailed",
    "JobOptions",
    "Keep",
    "Limit",
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
    "UnrecoverableError",
    "WaitingChildrenError",
    "WaitingError",
    "Worker",
]
