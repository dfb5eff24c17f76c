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
from .job import Job
from .options import Backoff, Deduplication, JobOptions, Keep, Parent
from .queue import Queue
from .worker import Worker

__all__ = [
    "Backoff",
    "Deduplication",
    "DelayedError",
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
    "UnrecoverableError",
    "WaitingChildrenError",
    "WaitingError",
    "Worker",
]
