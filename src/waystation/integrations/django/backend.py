"""The backend of Django's tasks: `@task` functions whose calls are jobs of bullmq."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

import uuid
from datetime import datetime
from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.utils import timezone

from waystation.bullmq import JobOptions
from waystation.core.errors import InvalidOption
from waystation.integrations.django.framework import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from waystation.integrations.django.jobs import queue_of, to_outbox
from waystation.integrations.django.results import (
    data_of,
    id_in,
    priority_of,
    queue_in,
    result_of,
    task_of,
)

ADD = ("on_commit", "at_once", "outbox")
"""When a job is added: once the transaction is committed, at once, or by way of the outbox."""
OF_JOBS = (
    "attempts",
    "backoff",
    "timeout",
    "expires",
    "deadline",
    "remove_on_complete",
    "remove_on_fail",
    "stack_trace_limit",
    "size_limit",
    "keep_logs",
)
"""The options of jobs that a site may choose; the others follow from the task."""


STATUSES = {
    "active": TaskResultStatus.RUNNING,
    "completed": TaskResultStatus.SUCCESSFUL,
    "failed": TaskResultStatus.FAILED,
}
"""Django's words for the states of a job; in all others it is ready."""


class WaystationBackend(BaseTaskBackend):
    """Adds the calls of tasks to queues of bullmq, and reads their results there.

    Its `OPTIONS` are `add`, `using` for the database whose transaction counts, and options of the
    jobs, such as `attempts` and `timeout`. A task runs once where `attempts` is not given.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        given = dict(self.options)
        self._add_when = given.pop("add", "on_commit")
        self.using = given.pop("using", None)
        """The database whose transaction counts; None for the default one."""
        if self._add_when not in ADD:
            raise ImproperlyConfigured(
                f"add in the OPTIONS of the backend {alias} must be one of {', '.join(ADD)}, "
                f"got {self._add_when!r}"
            )
        if unknown := sorted(set(given) - set(OF_JOBS)):
            raise ImproperlyConfigured(
                f"the OPTIONS of the backend {alias} are add, using, {', '.join(OF_JOBS)}; "
                f"got {', '.join(unknown)}"
            )
        try:
            JobOptions(**given)
        except (InvalidOption, TypeError) as error:
            raise ImproperlyConfigured(f"the OPTIONS of the backend {alias}: {error}") from None
        self._given = {"attempts": 1, **given}

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Add a call of a task; with `on_commit` when the current transaction is committed."""
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id=id_in(task.queue_name, uuid.uuid4().hex),
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        # Checked now, where the mistake is, and not after the commit.
        self._options(result)
        match self._add_when:
            case "at_once":
                self._add(result)
            case "on_commit":
                transaction.on_commit(partial(self._add, result), using=self.using)
            case _:
                to_outbox(
                    task.queue_name,
                    task.module_path,
                    data_of(result),
                    self._options(result),
                    using=self.using,
                )
                transaction.on_commit(
                    partial(self._added, result, timezone.now()), using=self.using
                )
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """The result of a call as it is now."""
        queue = queue_of(queue_in(result_id))
        # First the state: a job that ends after it was read would be finished without a result.
        state = queue.state(result_id)
        job = queue.get_job(result_id)
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        try:
            task = task_of(job)
        except LookupError as error:
            raise TaskResultDoesNotExist(f"{result_id}: {error}") from None
        return result_of(job, task, STATUSES.get(state, TaskResultStatus.READY))

    def _add(self, result: TaskResult) -> None:
        queue = queue_of(result.task.queue_name)
        job = queue.add(result.task.module_path, data_of(result), self._options(result))
        self._added(result, job.created_at)

    def _added(self, result: TaskResult, at: datetime) -> None:
        object.__setattr__(result, "enqueued_at", at)
        task_enqueued.send(type(self), task_result=result)

    def _options(self, result: TaskResult) -> JobOptions:
        task, delay = result.task, 0.0
        if task.run_after is not None:
            # Django has naive instants where USE_TZ is off.
            now = timezone.now() if timezone.is_aware(task.run_after) else datetime.now()
            delay = max(0.0, (task.run_after - now).total_seconds())
        return JobOptions(
            **self._given, job_id=result.id, delay=delay, priority=priority_of(task.priority)
        )
