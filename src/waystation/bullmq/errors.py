"""What a handler raises to steer its job, under the names BullMQ gives them."""

from waystation.core.errors import Malformed, RateLimited, Unrecoverable, WorkError


class UnrecoverableError(Unrecoverable):
    """The job fails for good, whatever attempts are left."""


class UnreadableData(Malformed, Unrecoverable):
    """The data of a job is no JSON; the job fails for good, because it will not change."""

    code = "UNREADABLE_DATA"


class DelayedError(WorkError):
    """The handler has moved the job to the delayed ones; the attempt does not count."""

    code = "DELAYED"


class WaitingError(WorkError):
    """The handler has moved the job back into the line; the attempt does not count."""

    code = "WAITING"


class WaitingChildrenError(WorkError):
    """The handler has left the job to wait for its children; the attempt does not count."""

    code = "WAITING_CHILDREN"


class RateLimitError(RateLimited):
    """The job goes back to the head of the line until the rate limit allows it again."""

    code = "BULLMQ_RATE_LIMITED"


MOVED_BY_THE_HANDLER = (DelayedError, WaitingError, WaitingChildrenError)
"""What a handler raises when it has found another place for its job."""
