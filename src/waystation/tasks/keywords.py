"""Options of tasks as keywords.

Written by `make docs` from the structs of options; do not edit.
"""

from datetime import datetime
from typing import TypedDict

from waystation.bullmq.options import Backoff, Deduplication, Group, Parent, Retention
from waystation.bullmq.terms import When
from waystation.core.durations import Duration
from waystation.tasks.groups import GroupOf


class TaskKeywords(TypedDict, total=False):
    """The fields of `JobOptions` as keywords of `Tasks.task`."""

    attempts: int
    backoff: Backoff | Duration | None
    delay: Duration
    priority: int
    lifo: bool
    group: GroupOf | Group | str | None
    job_id: str | None
    created_at: datetime | None
    remove_on_complete: Retention | None
    remove_on_fail: Retention | None
    timeout: Duration | None
    expires: When | None
    deadline: When | None
    unique_for: Duration | None
    stack_trace_limit: int | None
    size_limit: int | None
    keep_logs: int | None
    deduplication: Deduplication | None
    parent: Parent | None
    fail_parent_on_failure: bool
    continue_parent_on_failure: bool
    ignore_dependency_on_failure: bool
    remove_dependency_on_failure: bool
