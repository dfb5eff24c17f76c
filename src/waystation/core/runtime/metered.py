"""A listener that turns what a worker does into numbers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from waystation.core.errors import StoreError
from waystation.core.outcome import Done, Failed, Moved, Retried, Returned
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.telemetry.metrics import Metrics, reason_of

T = TypeVar("T")


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
                case Failed() as outcome:
                    self._note_failure(outcome)
                    self._took.observe(each.took_s)
                case Returned():
                    self.returned()
                case Moved():
                    self._took.observe(each.took_s)

    def failed(self, reason: str, *, again: bool) -> None:
        """Count a failure, and what follows from it."""
        self._failed.of(self._queue, reason).inc()
        (self._retried if again else self._dead).inc()

    def _note_failure(self, outcome: Failed) -> None:
        self.failed(reason_of(outcome.error), again=isinstance(outcome, Retried))

    def returned(self) -> None:
        """Count a job that is left to others."""
        self._returned.inc()

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


class MeteredApart:
    """Counts the work of several queues, each by the meter that its claims have."""

    def __init__(self, metrics: Metrics, meter_of: Callable[[Claim[Any]], Metered]) -> None:
        self.metrics = metrics
        self._meter_of = meter_of

    def claimed(self, claims: Sequence[Claim[Any]]) -> None:
        """Count what came in."""
        for meter, theirs in self._apart(claims, claims):
            meter.claimed(theirs)

    def settled(self, settled: Sequence[Settled[Any]]) -> None:
        """Count what was done, and how long it took."""
        for meter, theirs in self._apart(settled, (each.claim for each in settled)):
            meter.settled(theirs)

    def refused(self, refused: Sequence[Refused[Any]]) -> None:
        """Count the outcomes that came too late."""
        for meter, theirs in self._apart(refused, (each.claim for each in refused)):
            meter.refused(theirs)

    def lost(self, claims: Sequence[Claim[Any]]) -> None:
        """Count the leases that ran out."""
        for meter, theirs in self._apart(claims, claims):
            meter.lost(theirs)

    def troubled(self, error: StoreError) -> None:
        """Count the times the store could not be asked."""
        self.metrics.store_reconnects.of().inc()

    def _apart(
        self, things: Sequence[T], claims: Iterable[Claim[Any]]
    ) -> Iterator[tuple[Metered, list[T]]]:
        found: dict[Metered, list[T]] = {}
        for each, claim in zip(things, claims, strict=True):
            found.setdefault(self._meter_of(claim), []).append(each)
        yield from found.items()
