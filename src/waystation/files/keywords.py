"""Options of files as keywords.

Written by `make docs` from the structs of options; do not edit.
"""

from typing import TypedDict

from waystation.core.breaker import BreakerOptions
from waystation.core.durations import Duration
from waystation.files.options import ReaperOptions


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
    max_retries: int
    backoff: Duration
    backoff_max: Duration
    weights: tuple[int, ...]
    completed_max_len: int
    events_max_len: int
    no_handler_after: Duration
    reaper: ReaperOptions
    breaker: BreakerOptions | None
    sample: Duration
