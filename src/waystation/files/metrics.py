"""The metrics of a worker of files, by the names of the spec."""

from collections.abc import Sequence
from typing import Any

from waystation.core.outcome import Failed
from waystation.core.runtime.metered import Metered, MeteredApart
from waystation.core.telemetry.metrics import BREAKER_STATE, Metrics


class _OfQueue(Metered):
    def _note_failure(self, outcome: Failed) -> None:
        # Its source counts it, which knows the reason.
        pass


class Meter(MeteredApart):
    """Counts per queue; the counters are looked up once, not for every job."""

    def __init__(self, metrics: Metrics, queues: Sequence[str]) -> None:
        meters = [_OfQueue(metrics, product="files", queue=queue) for queue in queues]
        super().__init__(metrics, lambda claim: meters[getattr(claim, "lane", 1) - 1])
        self._meters = meters
        for queue in queues:
            metrics.jobs_produced.of(queue)
            metrics.circuit_breaker_state.of(queue).set(0)

    def failed(self, lane: int, reason: str, *, again: bool) -> None:
        """Count a failure and what follows from it."""
        self._meters[lane - 1].failed(reason, again=again)

    def skipped(self, lane: int) -> None:
        """Count a file that this worker has no handler for."""
        self._meters[lane - 1].returned()

    def breaker(self, queue: str, state: Any) -> None:
        """Show the state of a queue's breaker."""
        self.metrics.circuit_breaker_state.of(queue).set(BREAKER_STATE[state])
