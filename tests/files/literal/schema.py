"""The settings and the logging helper as the spec has them."""

from typing import Any

SETTINGS = frozenset(
    f"{section}.{name}"
    for section, names in {
        "redis": "addr username password db pool_size_multiplier min_idle_conns dial_timeout "
        "read_timeout write_timeout max_retries",
        "worker": "count heartbeat_ttl max_retries backoff.base backoff.max priorities queues "
        "processing_list_pattern heartbeat_key_pattern completed_list dead_letter_list "
        "brpoplpush_timeout",
        "producer": "scan_dir include_globs exclude_globs default_priority high_priority_exts "
        "rate_limit_per_sec rate_limit_key",
        "circuit_breaker": "failure_threshold window cooldown_period min_samples",
        "observability": "metrics_port log_level queue_sample_interval tracing.enabled "
        "tracing.endpoint",
    }.items()
    for name in names.split()
)

LOG_KEYS = frozenset(
    ("level", "ts", "msg", "trace_id", "span_id", "job_id", "queue", "worker_id", "request_id",
     "namespace")
)  # fmt: skip


def literal_log(msg: str, **fields: Any) -> None:
    """The helper rejects keys that are not allowed: here, by raising where the line is written."""
    if unknown := fields.keys() - LOG_KEYS:
        raise ValueError(f"not allowed: {', '.join(unknown)}")
