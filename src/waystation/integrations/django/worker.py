"""The worker of Django's tasks: `handler` runs a job as the call of a task.

`manage.py waystation_worker` starts it; what it runs is
`waystation bullmq work waystation.integrations.django.worker:handler QUEUE`.
"""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

import inspect
import logging
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.db import close_old_connections
from django.utils import timezone

from waystation.bullmq import Job, SyncJob
from waystation.core.errors import InvalidResult, NoHandler, Unrecoverable
from waystation.core.failure import trace_text
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.integrations.django import site
from waystation.integrations.django.framework import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from waystation.integrations.django.results import class_of, result_of, task_of


class TaskHandler(Handler[Job]):
    """Runs coroutines on the loop, and plain functions in threads."""

    def __init__(self) -> None:
        super().__init__(self._run)
        self.payloads = site.payloads()
        """For the worker that it runs in."""
        self._threads: Handler[Any] | None = None

    async def __call__(self, job: Job) -> Any:
        """Run a job."""
        return await self._run(job)

    async def close(self) -> None:
        """Let go of the threads."""
        if self._threads is not None:
            await self._threads.close()

    async def _run(self, job: Job) -> Any:
        task = _task_of(job)
        if inspect.iscoroutinefunction(task.func):
            return await _on_the_loop(task, job)
        if self._threads is None:
            self._threads = handler_of(_in_a_thread)
        return await self._threads.run(job)


async def _on_the_loop(task: Task, job: Job) -> Any:
    result = _started(task, job)
    await sync_to_async(close_old_connections)()
    try:
        await task_started.asend_robust(_sender(task), task_result=result)
        args = _arguments(task, result)
        try:
            value = _plain(task, await task.func(*args, **result.kwargs))
        except Exception as error:
            if _failed(result, job, error):
                await task_finished.asend_robust(_sender(task), task_result=result)
            raise
        _succeeded(result, value)
        await task_finished.asend_robust(_sender(task), task_result=result)
        return value
    finally:
        await sync_to_async(close_old_connections)()


def _in_a_thread(job: SyncJob) -> Any:
    # Connections to databases belong to threads; one that is too old or broken is not used again.
    close_old_connections()
    try:
        task = _task_of(job)
        result = _started(task, job)
        task_started.send_robust(_sender(task), task_result=result)
        args = _arguments(task, result)
        try:
            value = _plain(task, task.func(*args, **result.kwargs))
        except Exception as error:
            if _failed(result, job, error):
                task_finished.send_robust(_sender(task), task_result=result)
            raise
        _succeeded(result, value)
        task_finished.send_robust(_sender(task), task_result=result)
        return value
    finally:
        close_old_connections()


def _task_of(job: Any) -> Task:
    try:
        return task_of(job)
    except LookupError as error:
        raise NoHandler(str(error)) from None


def _sender(task: Task) -> type:
    return type(task.get_backend())


def _arguments(task: Task, result: TaskResult) -> list[Any]:
    return [TaskContext(task_result=result), *result.args] if task.takes_context else result.args


def _started(task: Task, job: Any) -> TaskResult:
    result = result_of(job, task, TaskResultStatus.RUNNING)
    # The job is as it was before it was claimed.
    now = timezone.now()
    object.__setattr__(result, "started_at", result.started_at or now)
    object.__setattr__(result, "last_attempted_at", now)
    return result


def _plain(task: Task, value: Any) -> Any:
    try:
        return normalize_json(value)
    except (TypeError, ValueError) as error:
        raise InvalidResult(f"{task.module_path} returned no JSON: {error}") from None


def _failed(result: TaskResult, job: Any, error: Exception) -> bool:
    """Note an error; False when the task will be tried again."""
    is_last = isinstance(error, Unrecoverable) or job.attempt >= job.max_attempts
    trace = trace_text(error)
    result.errors.append(TaskError(exception_class_path=class_of(error), traceback=trace))
    if is_last:
        object.__setattr__(result, "finished_at", timezone.now())
        object.__setattr__(result, "status", TaskResultStatus.FAILED)
    return is_last


def _succeeded(result: TaskResult, value: Any) -> None:
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
    object.__setattr__(result, "_return_value", value)


def _set_up() -> None:
    """Set up the site, so that a mistake in its settings is seen before a job is claimed."""
    if apps.ready:
        return
    django.setup()
    # A LOGGING without `disable_existing_loggers: False` has silenced the worker.
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("waystation.") and isinstance(logger, logging.Logger):
            logger.disabled = False


_set_up()

handler = TaskHandler()
"""Runs the tasks of every queue."""
