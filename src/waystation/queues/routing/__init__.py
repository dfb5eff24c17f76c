"""Jobs that ask for a kind of worker: by server, stack, capabilities and region."""

from .coverage import Covered
from .job import Job, JobOptions
from .queue import Limit, NewJob, Queue
from .retry import BackoffRule, Retry
from .schedule import Schedule
from .scheduler import Scheduler, SchedulerOptions
from .target import Target
from .worker import Worker

__all__ = [
    "BackoffRule",
    "Covered",
    "Job",
    "JobOptions",
    "Limit",
    "NewJob",
    "Queue",
    "Retry",
    "Schedule",
    "Scheduler",
    "SchedulerOptions",
    "Target",
    "Worker",
]
