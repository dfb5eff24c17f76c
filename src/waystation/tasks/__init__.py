"""Typed tasks: functions whose calls are jobs of bullmq, checked where they are added and run."""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        # Declaring tasks
        "tasks": "Tasks Declare Middleware Next",
        "dependencies": "depends Dependency Provider Scope",
        "groups": "GroupOf",
        "keywords": "TaskKeywords",
        # Calling them
        "task": (
            "Task AsyncTask PlainTask Call CallNode TaskJob TaskFlow Upgrade "
            "BlockingTask BlockingTaskJob BlockingTaskFlow"
        ),
        "blocking": "BlockingTasks",
        # Running them
        "worker": "TaskWorker",
        # Their payloads
        "waystation.bullmq.payloads.options": "PayloadOptions",
        "waystation.bullmq.payloads.blobs": "Blobs Blob DirectoryBlobs",
    },
)
