"""Options of bullmq as keywords.

Written by `make docs` from the structs of options; do not edit.
"""

from typing import Literal, TypedDict

from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Retention
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.bullmq.source import BackoffStrategy, RetryPredicate
from waystation.core.durations import Duration


class WorkerKeywords(TypedDict, total=False):
    """The fields of `WorkerOptions` as keywords of `Worker`."""

    concurrency: int
    batch_limit: int
    calls: int
    lease: Duration
    renew: Duration
    timeout: Duration | None
    grace: Duration
    poll: Duration
    name: str | None
    batch: int
    batch_min: int
    batch_wait: Duration
    batch_by: Literal["group"] | None
    process: bool
    stalled_interval: Duration
    max_stalled: int
    max_started_attempts: int | None
    limiter: Limit | None
    backoff_strategy: BackoffStrategy | None
    retry_if: RetryPredicate | None
    repeat_strategy: RepeatStrategy | None
    max_backoff: Duration
    remove_on_complete: Retention | None
    remove_on_fail: Retention | None
    result_limit: int
    metrics_points: int | None


class ManualKeywords(TypedDict, total=False):
    """The fields of `WorkerOptions` that `ManualWorker` takes as keywords."""

    name: str | None
    lease: Duration
    stalled_interval: Duration
    max_stalled: int
    limiter: Limit | None
    backoff_strategy: BackoffStrategy | None
    repeat_strategy: RepeatStrategy | None
    remove_on_complete: Retention | None
    remove_on_fail: Retention | None
