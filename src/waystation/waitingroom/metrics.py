"""Prometheus metrics of the waiting room."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from waystation.core.telemetry.metrics import Instrument, Metrics, declared

ALIKE = "waiting_room_"
"""How the gauges begin that every process reads from the same store."""
_WAITS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400)


class RoomMetrics:
    """The metrics of the HTTP API."""

    queue_length = Instrument(
        Gauge, "waiting_room_queue_length", "People in line.", "queue", "lane"
    )
    active_sessions = Instrument(Gauge, "waiting_room_active_sessions", "People inside.", "queue")
    admissions = Instrument(Counter, "waiting_room_admissions_total", "People called in.", "queue")
    arrivals = Instrument(
        Counter,
        "waiting_room_arrivals_total",
        "People who asked for a place, by answer.",
        "queue",
        "result",
    )
    claims = Instrument(
        Counter,
        "waiting_room_claims_total",
        "Turns that were asked for, by answer.",
        "queue",
        "result",
    )
    expired = Instrument(
        Counter,
        "waiting_room_expired_total",
        "People who are gone, by reason.",
        "queue",
        "reason",
    )
    verified = Instrument(
        Counter,
        "waiting_room_verify_total",
        "Questions of proxies, by answer.",
        "queue",
        "result",
    )
    webhook_lag = Instrument(
        Gauge,
        "waiting_room_webhook_lag_seconds",
        "The age of the oldest event that a webhook has not been told.",
        "queue",
    )
    shown_wait = Instrument(
        Histogram,
        "waiting_room_wait_seconds",
        "The estimated wait on joining.",
        "queue",
        buckets=_WAITS,
    )
    admit_lag = Instrument(
        Gauge,
        "waiting_room_admit_loop_lag_seconds",
        "Seconds since people were last called in.",
        "queue",
    )
    fail_open = Instrument(Gauge, "waiting_room_fail_open", "1 while everybody is let in.", "queue")

    def __init__(self, shared: Metrics | None = None) -> None:
        self.shared = shared or Metrics()
        registry: CollectorRegistry = self.shared.registry
        for line in declared(RoomMetrics):
            line.install(self, registry, {})

    def expose(self) -> bytes:
        """All numbers in Prometheus' text format."""
        return self.shared.expose()
