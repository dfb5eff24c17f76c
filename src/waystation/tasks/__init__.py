"""Typed tasks: functions whose calls are jobs of bullmq, checked where they are added and run."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.tasks.dependencies import Dependency, Provider, Scope, depends
    from waystation.tasks.task import (
        AsyncTask,
        BlockingTask,
        BlockingTaskJob,
        Call,
        CallNode,
        PlainTask,
        Task,
        TaskFlow,
        TaskJob,
        Upgrade,
    )
    from waystation.tasks.tasks import Declare, Middleware, Next, Tasks
    from waystation.tasks.worker import TaskWorker

__all__ = [
    "AsyncTask",
    "BlockingTask",
    "BlockingTaskJob",
    "Call",
    "CallNode",
    "Declare",
    "Dependency",
    "Middleware",
    "Next",
    "PlainTask",
    "Provider",
    "Scope",
    "Task",
    "TaskFlow",
    "TaskJob",
    "TaskWorker",
    "Tasks",
    "Upgrade",
    "depends",
]

__getattr__ = names_of(
    __name__,
    {
        "AsyncTask": "task",
        "BlockingTask": "task",
        "BlockingTaskJob": "task",
        "Call": "task",
        "CallNode": "task",
        "Declare": "tasks",
        "Dependency": "dependencies",
        "Middleware": "tasks",
        "Next": "tasks",
        "PlainTask": "task",
        "Provider": "dependencies",
        "Scope": "dependencies",
        "Task": "task",
        "TaskFlow": "task",
        "TaskJob": "task",
        "TaskWorker": "worker",
        "Tasks": "tasks",
        "Upgrade": "task",
        "depends": "dependencies",
    },
)
