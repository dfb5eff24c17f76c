"""The metrics of a worker of files, by the names of the spec."""

from collections.abc import Sequence
from typing import Any

from waystation.core.errors import StoreError
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.telemetry.metrics import BREAKER_STATE, Metrics
from waystation.files.job import Job

LINE = "files"


class Meter:
    """Counts per queue; the counters are looked up once, not for every job."""

    def __init__(self, metrics: Metrics, queues: Sequence[str]) -> None:
        self.metrics = metrics
        self._queues = queues
        self._consumed = [metrics.jobs_consumed.of(queue) for queue in queues]
        self._held = [metrics.jobs_held.of(LINE, queue) for queue in queues]
        self._completed = [metrics.jobs_completed.of(queue) for queue in queues]
        self._took = [metrics.job_processing.of(queue) for queue in queues]
        self._retried = [metrics.jobs_retried.of(queue) for queue in queues]
        self._dead = [metrics.jobs_dead_letter.of(queue) for queue in queues]
        for queue in queues:
            metrics.jobs_produced.of(queue)
            metrics.circuit_breaker_state.of(queue).set(0)

    def claimed(self, claims: Sequence[Claim[Job]]) -> None:
        """Count claimed jobs."""
        for claim in claims:
            self._consumed[_lane(claim) - 1].inc()
            self._held[_lane(claim) - 1].inc()

    def settled(self, settled: Sequence[Settled[Job]]) -> None:
        """Count outcomes and their durations."""
        for each in settled:
            lane = _lane(each.claim) - 1
            self._held[lane].dec()
            if isinstance(each.outcome, Done):
                self._completed[lane].inc()
            if isinstance(each.outcome, Done | Failed):
                self._took[lane].observe(each.took_s)
            else:
                self.metrics.jobs_returned.of(LINE, self._queues[lane]).inc()

    def refused(self, refused: Sequence[Refused[Job]]) -> None:
        """Count outcomes that came too late."""
        for each in refused:
            lane = _lane(each.claim) - 1
            self._held[lane].dec()
            self.metrics.settles_refused.of(LINE, self._queues[lane]).inc()

    def lost(self, claims: Sequence[Claim[Job]]) -> None:
        """Count jobs whose lease was lost while they ran."""
        for claim in claims:
            lane = _lane(claim) - 1
            self._held[lane].dec()
            self.metrics.leases_lost.of(LINE, self._queues[lane]).inc()

    def troubled(self, error: StoreError) -> None:
        """Count calls that the store did not answer."""
        self.metrics.store_reconnects.of().inc()

    def failed(self, lane: int, reason: str, *, again: bool) -> None:
        """Count a failure and what follows from it."""
        self.metrics.jobs_failed.of(self._queues[lane - 1], reason).inc()
        (self._retried if again else self._dead)[lane - 1].inc()

    def skipped(self, lane: int) -> None:
        """Count a file that this worker has no handler for."""
        self.metrics.jobs_returned.of(LINE, self._queues[lane - 1]).inc()

    def breaker(self, queue: str, state: Any) -> None:
        """Show the state of a queue's breaker."""
        self.metrics.circuit_breaker_state.of(queue).set(BREAKER_STATE[state])


def _lane(claim: Claim[Job]) -> int:
    return getattr(claim, "lane", 1)
