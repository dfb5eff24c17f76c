"""Calls of Django's tasks as jobs, and jobs as the results that Django reads.

Internal: the backend and the worker share it.
"""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

import re
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from waystation.core.errors import UnreadableData
from waystation.integrations.django.framework import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_QUEUE_NAME,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)

_SOONEST = 100
"""Django's highest priority, which is 1 on the wire; 0 there would come before all others."""
_NO_TRACE = "waystation.errors.JobFailed"
"""The class of a failure that no code of the task has raised, such as a worker that died."""
_CLASS = re.compile(r"^(?:[\w<>]+\.)*[A-Za-z_]\w*(?=:|$)", re.ASCII)
_HEAD = "Traceback (most recent call last):\n"


def id_in(queue: str, token: str) -> str:
    """The id of a result, which is that of its job, and says where the job is."""
    return f"{token}.{queue}"


def queue_in(result_id: str) -> str:
    """The queue that an id names."""
    return result_id.partition(".")[2] or DEFAULT_TASK_QUEUE_NAME


def priority_of(priority: int) -> int:
    """Django's priority, of which the highest comes first, as bullmq has it, or the other way."""
    return _SOONEST + 1 - priority


def data_of(result: TaskResult) -> dict[str, Any]:
    """A call as the data of a job."""
    data: dict[str, Any] = {"args": result.args, "kwargs": result.kwargs}
    if result.backend != DEFAULT_TASK_BACKEND_ALIAS:
        data["backend"] = result.backend
    if result.task.run_after is not None:
        data["run_after"] = result.task.run_after.isoformat()
    return data


def task_of(job: Any) -> Task:
    """The task that a job is a call of; LookupError when there is none."""
    try:
        found = import_string(job.name)
    except ImportError as error:
        raise LookupError(f"there is no task {job.name!r}: {error}") from None
    if not isinstance(found, Task):
        # A job's name comes from whoever can write to the store; it runs nothing but tasks.
        raise LookupError(f"{job.name!r} is no task")
    call = _call_of(job)
    run_after = call.get("run_after")
    return found.using(
        # A job of another producer may have a priority that Django does not know.
        priority=min(max(priority_of(job.priority), -_SOONEST), _SOONEST),
        queue_name=job.queue_name,
        backend=call.get("backend", DEFAULT_TASK_BACKEND_ALIAS),
        run_after=datetime.fromisoformat(run_after) if isinstance(run_after, str) else None,
    )


def result_of(job: Any, task: Task, status: TaskResultStatus) -> TaskResult:
    """A job as the result of a task."""
    call = _call_of(job)
    started = _as_django_has_it(job.started_at)
    result = TaskResult(
        task=task,
        id=job.id,
        status=status,
        enqueued_at=_as_django_has_it(job.created_at),
        started_at=started,
        last_attempted_at=started,
        finished_at=_as_django_has_it(job.finished_at),
        args=call["args"],
        kwargs=call["kwargs"],
        backend=task.backend,
        errors=_errors_of(job, status),
        # Only the last of them is known by its name.
        worker_ids=[job.processed_by or ""] * job.attempts_started,
    )
    object.__setattr__(result, "_return_value", job.result)
    return result


def _call_of(job: Any) -> dict[str, Any]:
    data = job.data
    call = {"args": [], "kwargs": {}, **data} if isinstance(data, dict) else {}
    if not isinstance(call.get("args"), list) or not isinstance(call.get("kwargs"), dict):
        # Its value may be a secret, and errors are stored as they are.
        kind = type(data).__name__
        raise UnreadableData(f"{job.name} takes an object with args and kwargs, got a {kind}")
    return call


def _errors_of(job: Any, status: TaskResultStatus) -> list[TaskError]:
    errors = [
        TaskError(exception_class_path=class_in(each), traceback=each) for each in job.stacktrace
    ]
    if not errors and status == TaskResultStatus.FAILED:
        errors = [TaskError(exception_class_path=_NO_TRACE, traceback=job.failed_reason or "")]
    return errors


def class_in(trace: str) -> str:
    """The class of the error that a traceback ends with."""
    tail = trace.rpartition(_HEAD)[2]
    for line in tail.splitlines():
        if line[:1].isspace():
            continue
        found = _CLASS.match(line)
        if found:
            path = found[0]
            return path if "." in path else f"builtins.{path}"
    return "builtins.Exception"


def class_of(error: BaseException) -> str:
    """The class of an error as Django writes it."""
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _as_django_has_it(at: datetime | None) -> datetime | None:
    if at is None or settings.USE_TZ:
        return at
    return timezone.make_naive(at)
