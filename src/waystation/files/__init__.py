"""A directory turned into work.

from waystation import files

@files.handler("**/*.pdf")
def index(job: files.Job) -> None: ...
"""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.core.store.client import open_store
    from waystation.core.store.connection import Store, StoreOptions
    from waystation.files.directory.scan import ScanOptions
    from waystation.files.handlers import Handlers, handler, is_cancelled
    from waystation.files.job import Job
    from waystation.files.options import Layout, QueueOptions, ReaperOptions, WorkOptions
    from waystation.files.producer import Producer, ProducerOptions
    from waystation.files.queue import Queue
    from waystation.files.worker import FileWorkerOptions, Worker

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
    "Store",
    "StoreOptions",
    "WorkOptions",
    "Worker",
    "handler",
    "is_cancelled",
    "open_store",
]

__getattr__ = names_of(
    __name__,
    {
        "FileWorkerOptions": "worker",
        "Handlers": "handlers",
        "Job": "job",
        "Layout": "options",
        "Producer": "producer",
        "ProducerOptions": "producer",
        "Queue": "queue",
        "QueueOptions": "options",
        "ReaperOptions": "options",
        "ScanOptions": "waystation.files.directory.scan",
        "Store": "waystation.core.store.connection",
        "StoreOptions": "waystation.core.store.connection",
        "WorkOptions": "options",
        "Worker": "worker",
        "handler": "handlers",
        "is_cancelled": "handlers",
        "open_store": "waystation.core.store.client",
    },
)
