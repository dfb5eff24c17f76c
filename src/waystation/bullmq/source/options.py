"""Claim options: a worker's options as its source of work takes them, in milliseconds. Internal."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from waystation.bullmq.job import Job
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Retention
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.core.backoff import HOUR_MS
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.durations import Duration
from waystation.core.errors import InvalidOption
from waystation.core.options import at_least, of_kind

BackoffStrategy: TypeAlias = Callable[
    [int, str, BaseException, Job], "Duration | Awaitable[Duration | None] | None"
]
"""Takes attempts made, the backoff's name, the error and the job; returns the pause before the next
attempt, or None for no more."""


RetryPredicate: TypeAlias = Callable[[BaseException, Job], bool]
"""Takes the error of a failed attempt and its job; False fails the job for good."""


class ClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are claimed and which finished ones are kept."""

    worker: str
    lock_duration: int = 30_000
    limiter: Limit | None = None
    max_backoff: int = HOUR_MS
    """The longest pause of an exponential backoff."""
    strategy: BackoffStrategy | None = None
    """Decides the pause of backoffs that are neither fixed nor exponential."""
    retry_if: RetryPredicate | None = None
    """Decides whether a failed attempt is followed by another."""
    repeat_strategy: RepeatStrategy | None = None
    """Decides when the next job of a scheduler with a pattern is due, instead of cron."""
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
        at_least("result_limit", self.result_limit, 1)
        if not self.worker.isprintable() or " " in self.worker:
            raise InvalidOption(f"a worker's name must be text without spaces, got {self.worker!r}")
