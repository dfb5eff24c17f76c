"""bullmq without an event loop: queues, flows and events for Flask, Django, scripts and threads.

The names are those of `waystation.bullmq`. Any thread may use an object, and so may a process that
was forked after it was made.
"""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        "queue": "Queue",
        "waystation.bullmq.sync_job": "Job=SyncJob",
        "parts": "Schedulers Limits DeadLetters Groups",
        "flows": "FlowProducer",
        "bound": "FlowJob",
        "waystation.bullmq.flows": "FlowNode",
        "waystation.bullmq.payloads.options": "PayloadOptions",
        "events": "QueueEvents",
        # The store
        "client": "open_store",
        "waystation.core.store.connection.blocking": "Store=BlockingStore",
        "waystation.core.store.connection.store": "StoreOptions",
    },
)
