"""The fetch plan: how much may be fetched from which queue, by priority and circuit breaker."""

from collections.abc import Callable, Sequence

from waystation.core.breaker import Breaker, BreakerOptions, Permit, State
from waystation.core.clock import Clock
from waystation.core.errors import CircuitOpen
from waystation.core.telemetry.logs import get_logger
from waystation.files.metrics import Meter
from waystation.files.reasons import Reason, counts_for_breaker

_log = get_logger(__name__)


class FetchPlanner:
    """One circuit breaker for each queue, and the shares of the priorities."""

    def __init__(
        self,
        queues: Sequence[str],
        *,
        breaker: BreakerOptions | None,
        weights: Sequence[int],
        clock: Clock,
        meter: Meter | None = None,
    ) -> None:
        self._queues = queues
        self._meter = meter
        self._weights = weights
        self._carried = [0.0] * len(queues)
        self._unhindered: dict[int, Plan] = {}
        self.breakers = [
            Breaker(breaker, clock, on_change=self._listener(queue)) if breaker else None
            for queue in queues
        ]

    def plan(self, want: int) -> "Plan":
        """Each queue's share, and the most that may be fetched from it."""
        probes = {
            place: _probes(breaker, want)
            for place, breaker in enumerate(self.breakers)
            if breaker is not None and breaker.state is not State.CLOSED
        }
        # Without probes and weights they are nearly always the same few, so they are kept.
        if not probes and (kept := self._unhindered.get(want)):
            return kept
        limits = [want] * len(self.breakers)
        for place, permits in probes.items():
            limits[place] = len(permits)
        plan = Plan(self._shares(want), limits, probes)
        if not probes and not self._weights:
            self._unhindered[want] = plan
        return plan

    def permit(self, lane: int, plan: "Plan") -> Permit | None:
        """The breaker's permit for a job that was fetched."""
        if probes := plan.probes.get(lane - 1):
            return probes.pop()
        breaker = self.breakers[lane - 1]
        if breaker is None:
            return None
        try:
            return breaker.enter()
        except CircuitOpen:
            # It opened while the job was on its way; the job is here, so it runs all the same.
            return None

    def closed_for_s(self) -> float:
        """How long every breaker stays open; 0 when one is not."""
        return min(0.0 if each is None else each.cooldown_left_s for each in self.breakers)

    def _shares(self, want: int) -> list[int]:
        if not self._weights:
            return [want, *[0] * (len(self._queues) - 1)]
        total = sum(self._weights)
        shares: list[int] = []
        for place, weight in enumerate(self._weights):
            # What a round leaves over is kept, so that even single fetches keep the proportion.
            exact = self._carried[place] + want * weight / total
            shares.append(int(exact + 1e-9))
            self._carried[place] = exact - shares[-1]
        while sum(shares) < want:
            most = max(range(len(shares)), key=self._carried.__getitem__)
            shares[most] += 1
            self._carried[most] -= 1
        return shares

    def _listener(self, queue: str) -> Callable[[State, State], None]:
        def changed(before: State, after: State) -> None:
            _log.warning("breaker_changed", queue=queue, state=after.value)
            if self._meter:
                self._meter.breaker(queue, after)

        return changed


class Plan:
    """The limits of one call."""

    def __init__(
        self, shares: list[int], limits: list[int], probes: dict[int, list[Permit]]
    ) -> None:
        self.probes = probes
        self.text = ";".join(f"{share},{most}" for share, most in zip(shares, limits, strict=True))

    def release(self) -> None:
        """Release the permits that no job came for."""
        while self.probes:
            for permit in self.probes.popitem()[1]:
                permit.release()


def resolve(permit: Permit | None, reason: Reason | None) -> None:
    """Report an attempt's outcome to its breaker; no reason means success."""
    if permit is None:
        return
    if reason is None:
        permit.succeeded()
    elif counts_for_breaker(reason):
        permit.failed()
    else:
        permit.release()


def _probes(breaker: Breaker, want: int) -> list[Permit]:
    permits: list[Permit] = []
    try:
        while len(permits) < want:
            permits.append(breaker.enter())
    except CircuitOpen:
        pass
    return permits
