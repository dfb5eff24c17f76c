"""What `waystation.sync` offers.

Written by `make docs` from the list next to it; do not edit.
"""

from waystation.bullmq.flows import FlowNode
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.bullmq.sync_job import SyncJob as Job
from waystation.core.store.connection.blocking import BlockingStore as Store
from waystation.core.store.connection.store import StoreOptions
from waystation.sync.bound import FlowJob
from waystation.sync.client import open_store
from waystation.sync.events import QueueEvents
from waystation.sync.flows import FlowProducer
from waystation.sync.parts import DeadLetters, Groups, Limits, Schedulers
from waystation.sync.queue import Queue

__all__ = [
    "DeadLetters",
    "FlowJob",
    "FlowNode",
    "FlowProducer",
    "Groups",
    "Job",
    "Limits",
    "PayloadOptions",
    "Queue",
    "QueueEvents",
    "Schedulers",
    "Store",
    "StoreOptions",
    "open_store",
]
