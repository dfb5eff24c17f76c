"""Former names of the errors that a handler raises to steer its job; see `waystation.errors`."""

from waystation.core.errors import (
    JobDelayed,
    JobRateLimited,
    JobWaiting,
    JobWaitingForChildren,
    UnreadableData,
    Unrecoverable,
)

UnrecoverableError = Unrecoverable
DelayedError = JobDelayed
WaitingError = JobWaiting
WaitingChildrenError = JobWaitingForChildren
RateLimitError = JobRateLimited

MOVED_BY_THE_HANDLER = (JobDelayed, JobWaiting, JobWaitingForChildren)
"""Raised by a handler that has found another place for its job."""

__all__ = [
    "MOVED_BY_THE_HANDLER",
    "DelayedError",
    "RateLimitError",
    "UnreadableData",
    "UnrecoverableError",
    "WaitingChildrenError",
    "WaitingError",
]
