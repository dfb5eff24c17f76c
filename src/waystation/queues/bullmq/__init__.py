"""BullMQ in Python: what Node writes we read, and the other way round."""

from .adding import NewJob, NotAdded
from .event import QueueEvent
from .events import QueueEvents, QueueEventsProducer
from .finishes import JobFailed
from .job import Job
from .options import Backoff, Deduplication, JobOptions, Keep, Parent
from .queue import Queue

__all__ = [
    "Backoff",
    "Deduplication",
    "Job",
    "JobFailed",
    "JobOptions",
    "Keep",
    "NewJob",
    "NotAdded",
    "Parent",
    "Queue",
    "QueueEvent",
    "QueueEvents",
    "QueueEventsProducer",
]
