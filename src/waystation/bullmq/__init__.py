"""BullMQ in Python: queues and workers on the wire of Node's BullMQ."""

from waystation.core.lazy import names_of

__getattr__ = names_of(
    __name__,
    {
        # Queues
        "queue": "Queue Cleanable Retryable",
        "redis.packing": "NewJob JobLike",
        "states": "State JobState",
        "schedulers": "Schedulers",
        "scheduling.schedule": "Schedule Scheduler RepeatStrategy",
        "limits": "Limits Limit",
        "dead_letters": "DeadLetters",
        "groups": "Groups GroupState GroupSettings",
        "flows": "FlowProducer FlowNode FlowJob",
        "metrics": "Metrics MetricsKind",
        "waystation.core.line.forecasts": "Forecast",
        # Jobs and their options
        "job": "Job",
        "sync_job": "SyncJob",
        "keywords": "JobKeywords",
        "options": "JobOptions StoredOptions Backoff Deduplication Group Keep Parent Retention",
        "terms": "Terms When",
        "waystation.core.durations": "Duration DurationKeywords",
        "payloads.options": "PayloadOptions",
        "payloads.blobs": "Blobs Blob DirectoryBlobs",
        "redis.children": "ChildKind ChildResult DependencyCounts DependencyPage",
        "redis.commands": "Logs",
        "parts": "Part",
        # Workers
        "worker": "Worker WorkerOptions JobHandler",
        "manual": "ManualWorker",
        "worker_keywords": "WorkerKeywords ManualKeywords",
        "source": "BackoffStrategy RetryPredicate",
        "callbacks": "WorkerEvent WorkerSignal",
        "waystation.core.runtime.claim": "Claim",
        "waystation.core.runtime.worker": "Listener",
        # What happens in a queue
        "events.stream": "QueueEvents QueueEventsProducer",
        "events.event": "QueueEvent",
        "events.gaps": "Gap",
        # What handlers and callers raise and catch
        "waystation.core.errors": (
            "Unrecoverable JobDelayed JobWaiting JobWaitingForChildren JobRateLimited "
            "JobFailed NotAdded Expired TimedOut UnreadableData"
        ),
        # The store
        "waystation.core.store.client": "open_store",
        "waystation.core.store.connection": "Store StoreOptions",
        "waystation.core.store.connection.store": "Durability",
    },
)
