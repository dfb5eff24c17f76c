"""A listener that turns what a worker does into numbers."""

from collections.abc import Sequence
from typing import Any

from waystation.core.errors import StoreError
from waystation.core.outcome import Done, Failed, Moved, Retried, Returned
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.telemetry.metrics import Metrics, reason_of


class Metered:
    """Counts one product's work; the counters are looked up once, not for every job."""

    def __init__(self, metrics: Metrics, *, product: str, queue: str) -> None:
        self._failed = metrics.jobs_failed
        self._queue = queue
        self._consumed = metrics.jobs_consumed.of(queue)
        self._held = metrics.jobs_held.of(product, queue)
        self._completed = metrics.jobs_completed.of(queue)
        self._retried = metrics.jobs_retried.of(queue)
        self._dead = metrics.jobs_dead_letter.of(queue)
        self._took = metrics.job_processing.of(queue)
        self._returned = metrics.jobs_returned.of(product, queue)
        self._lost = metrics.leases_lost.of(product, queue)
        self._refused = metrics.settles_refused.of(product, queue)
        self._troubled = metrics.store_reconnects

    def claimed(self, claims: Sequence[Claim[Any]]) -> None:
        """Count what came in."""
        self._consumed.inc(len(claims))
        self._held.inc(len(claims))

    def settled(self, settled: Sequence[Settled[Any]]) -> None:
        """Count what was done, and how long it took."""
        self._held.dec(len(settled))
        for each in settled:
            match each.outcome:
                case Done():
                    self._completed.inc()
                    self._took.observe(each.took_s)
                case Failed(error):
                    self._failed.of(self._queue, reason_of(error)).inc()
                    again = isinstance(each.outcome, Retried)
                    (self._retried if again else self._dead).inc()
                    self._took.observe(each.took_s)
                case Returned():
                    self._returned.inc()
                case Moved():
                    self._took.observe(each.took_s)

    def refused(self, refused: Sequence[Refused[Any]]) -> None:
        """Count the outcomes that came too late."""
        self._held.dec(len(refused))
        self._refused.inc(len(refused))

    def lost(self, claims: Sequence[Claim[Any]]) -> None:
        """Count the leases that ran out."""
        self._held.dec(len(claims))
        self._lost.inc(len(claims))

    def troubled(self, error: StoreError) -> None:
        """Count the times the store could not be asked."""
        self._troubled.of().inc()
