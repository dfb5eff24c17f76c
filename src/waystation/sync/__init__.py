"""bullmq without an event loop: queues, flows and events for Flask, Django, scripts and threads.

The names are those of `waystation.bullmq`. Any thread may use an object, and so may a process that
was forked after it was made.
"""

from typing import TYPE_CHECKING

from waystation.core.lazy import names_of

if TYPE_CHECKING:
    from waystation.bullmq.flows import FlowNode
    from waystation.bullmq.payloads.options import PayloadOptions
    from waystation.bullmq.sync_job import SyncJob as Job
    from waystation.core.store.connection.blocking import BlockingStore as Store
    from waystation.core.store.connection.store import StoreOptions
    from waystation.sync.bound import FlowJob
    from waystation.sync.client import open_store
    from waystation.sync.events import QueueEvents
    from waystation.sync.flows import FlowProducer
    from waystation.sync.parts import DeadLetters, Limits, Schedulers
    from waystation.sync.queue import Queue

__all__ = [
    "DeadLetters",
    "FlowJob",
    "FlowNode",
    "FlowProducer",
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

_NAMES = names_of(
    __name__,
    {
        "waystation.bullmq.flows": "FlowNode",
        "waystation.bullmq.payloads.options": "PayloadOptions",
        "waystation.bullmq.sync_job": "SyncJob",
        "waystation.core.store.connection.blocking": "BlockingStore",
        "waystation.core.store.connection.store": "StoreOptions",
        "client": "open_store",
        "events": "QueueEvents",
        "bound": "FlowJob",
        "flows": "FlowProducer",
        "parts": "DeadLetters Limits Schedulers",
        "queue": "Queue",
    },
)
_RENAMED = {"Job": "SyncJob", "Store": "BlockingStore"}


def __getattr__(name: str) -> object:
    return _NAMES(_RENAMED.get(name, name))
