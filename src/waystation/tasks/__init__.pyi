"""What `waystation.tasks` offers.

Written by `make docs` from the list next to it; do not edit.
"""

from waystation.bullmq.payloads.blobs import Blob, Blobs, DirectoryBlobs
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.tasks.blocking import BlockingTasks
from waystation.tasks.dependencies import Dependency, Provider, Scope, depends
from waystation.tasks.groups import GroupOf
from waystation.tasks.keywords import TaskKeywords
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
    "GroupOf",
    "Middleware",
    "Next",
    "PayloadOptions",
    "PlainTask",
    "Provider",
    "Scope",
    "Task",
    "TaskFlow",
    "TaskJob",
    "TaskKeywords",
    "TaskWorker",
    "Tasks",
    "Upgrade",
    "depends",
]
