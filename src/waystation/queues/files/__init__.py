"""A directory turned into work.

from waystation.queues import files

@files.handler("**/*.pdf")
def index(job: files.Job) -> None: ...
"""

from .handlers import Handlers, handler
from .job import Job
from .options import Layout, ReaperOptions, WorkOptions
from .producer import Producer, ProducerOptions
from .queue import Queue, QueueOptions
from .scan import ScanOptions
from .worker import FileWorkerOptions, Worker

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
