"""How a worker claims jobs, and what becomes of those that end."""

from collections.abc import Awaitable, Callable

import msgspec

from waystation.bullmq.job import Job
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Retention
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.core.backoff import HOUR_MS
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.errors import InvalidOption
from waystation.core.options import at_least, of_kind

Strategy = Callable[[int, str, BaseException, Job], "int | Awaitable[int]"]
"""From attempts made, backoff's name, error and job: milliseconds to wait, or -1 for no more."""


class ClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are claimed and what becomes of them."""

    worker: str
    lock_duration: int = 30_000
    limiter: Limit | None = None
    max_backoff: int = HOUR_MS
    """The longest that a growing pause between attempts gets."""
    strategy: Strategy | None = None
    """Decides the pause for backoffs that are neither fixed nor exponential."""
    repeat_strategy: RepeatStrategy | None = None
    """Decides when a scheduler with a pattern comes next, instead of cron."""
    max_started_attempts: int | None = None
    remove_on_complete: Retention | None = None
    remove_on_fail: Retention | None = None
    result_limit: int = PAYLOAD_LIMIT
    """Bytes of JSON that a result may have; a larger one fails its job."""
    metrics_points: int | None = None
    """Minutes of metrics to keep; None records none."""

    def __post_init__(self) -> None:
        if self.limiter is not None:
            of_kind("limiter", self.limiter, Limit)
            at_least("max of the limiter", self.limiter.max, 1)
            at_least("duration of the limiter", self.limiter.duration, 1)
        at_least("result_limit", self.result_limit, 1)
        if not self.worker.isprintable() or " " in self.worker:
            raise InvalidOption(f"worker_name must be text without spaces, got {self.worker!r}")
