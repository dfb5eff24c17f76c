"""Typed tasks: functions whose calls are jobs of bullmq, checked where they are added and run."""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.bullmq.payloads.blobs import Blob, Blobs, DirectoryBlobs
    from waystation.bullmq.payloads.options import PayloadOptions
    from waystation.tasks.blocking import BlockingTasks
    from waystation.tasks.dependencies import Dependency, Provider, Scope, depends
    from waystation.tasks.task import (
        AsyncTask,
        BlockingTask,
        BlockingTaskFlow,
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
    "Blob",
    "Blobs",
    "BlockingTask",
    "BlockingTaskFlow",
    "BlockingTaskJob",
    "BlockingTasks",
    "Call",
    "CallNode",
    "Declare",
    "Dependency",
    "DirectoryBlobs",
    "Middleware",
    "Next",
    "PayloadOptions",
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
        "waystation.bullmq.payloads.blobs": "Blob Blobs DirectoryBlobs",
        "waystation.bullmq.payloads.options": "PayloadOptions",
        "blocking": "BlockingTasks",
        "dependencies": "Dependency Provider Scope depends",
        "task": (
            "AsyncTask BlockingTask BlockingTaskFlow BlockingTaskJob Call CallNode PlainTask Task "
            "TaskFlow TaskJob Upgrade"
        ),
        "tasks": "Declare Middleware Next Tasks",
        "worker": "TaskWorker",
    },
)
