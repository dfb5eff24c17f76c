"""What `waystation.files` offers.

Written by `make docs` from the list next to it; do not edit.
"""

from waystation.core.breaker import BreakerOptions
from waystation.core.durations import Duration
from waystation.core.line.forecasts import (
    DesiredWorkers,
    Drain,
    FailureLabel,
    FailureLabels,
    Forecast,
    Slo,
)
from waystation.core.store.client import open_store
from waystation.core.store.connection import Store, StoreOptions
from waystation.core.telemetry.metrics import Metrics
from waystation.core.telemetry.traces import Traces, WorkSpan
from waystation.files.dead_letters import DeadLetter, DeadLetters, JobError
from waystation.files.directory.scan import PathLike, ScanOptions, Skip
from waystation.files.events import Event
from waystation.files.handlers import FileHandler, Handlers, handler, is_cancelled, registered
from waystation.files.job import Job
from waystation.files.keywords import WorkerKeywords
from waystation.files.options import Layout, QueueOptions, ReaperOptions, WorkerOptions
from waystation.files.producer import Producer, ProducerOptions, Tally
from waystation.files.queue import Queue, WorkerInfo
from waystation.files.reasons import Reason
from waystation.files.redis.lists import State
from waystation.files.worker import Worker

__all__ = [
    "BreakerOptions",
    "DeadLetter",
    "DeadLetters",
    "DesiredWorkers",
    "Drain",
    "Duration",
    "Event",
    "FailureLabel",
    "FailureLabels",
    "FileHandler",
    "Forecast",
    "Handlers",
    "Job",
    "JobError",
    "Layout",
    "Metrics",
    "PathLike",
    "Producer",
    "ProducerOptions",
    "Queue",
    "QueueOptions",
    "ReaperOptions",
    "Reason",
    "ScanOptions",
    "Skip",
    "Slo",
    "State",
    "Store",
    "StoreOptions",
    "Tally",
    "Traces",
    "WorkSpan",
    "Worker",
    "WorkerInfo",
    "WorkerKeywords",
    "WorkerOptions",
    "handler",
    "is_cancelled",
    "open_store",
    "registered",
]
