"""Options of routing as keywords.

Written by `make docs` from the structs of options; do not edit.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from waystation.core.durations import Duration
from waystation.routing.limits import Limit
from waystation.routing.options import Retry
from waystation.routing.schedules import Schedule
from waystation.routing.target import Target
from waystation.routing.upkeep import SchedulerOptions


class JobKeywords(TypedDict, total=False):
    """The fields of `JobOptions` as keywords of `Queue.add`."""

    target: Target
    schedule: Schedule
    retry: Retry
    priority: int
    depends_on: Sequence[str]
    limit: Limit | None
    metadata: Mapping[str, Any]
    job_id: str | None
    idempotency_key: str | None


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
    stack: str
    region: str
    capabilities: Sequence[str]
    process: bool
    result_limit: int
    scheduler: SchedulerOptions | None
