"""A directory turned into work.

from waystation.queues import files

@files.handler("**/*.pdf")
def index(job: files.Job) -> None: ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .handlers import Handlers, handler
    from .job import Job
    from .options import Layout, ReaperOptions, WorkOptions
    from .producer import Producer, ProducerOptions
    from .queue import Queue, QueueOptions
    from .scan import ScanOptions
    from .worker import FileWorkerOptions, Worker

_HOMES = {
    "FileWorkerOptions": "worker",
    "Handlers": "handlers",
    "Job": "job",
    "Layout": "options",
    "Producer": "producer",
    "ProducerOptions": "producer",
    "Queue": "queue",
    "QueueOptions": "queue",
    "ReaperOptions": "options",
    "ScanOptions": "scan",
    "WorkOptions": "options",
    "Worker": "worker",
    "handler": "handlers",
}

__all__ = [
    "FileWorkerOptions",
    "Handlers",
    "Job",
    "Layout",
    "Producer",
    "ProducerOptions",
    "Queue",
    "QueueOptions",
    "ReaperOptions",
    "ScanOptions",
    "WorkOptions",
    "Worker",
    "handler",
]


def __getattr__(name: str) -> Any:
    # Found when first asked for: settings and executors need the declarations, not what runs.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
