"""Fetching: what a worker may take from which queue, and files that are left to others.

A worker cannot choose what it fetches from a queue. It moves what it has no handler for to a
stream; every worker reads the stream, each entry once, and takes what it has a handler for.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from waystation.core.breaker import Breaker, BreakerOptions, Permit, State
from waystation.core.clock import Clock
from waystation.core.durations import whole_number
from waystation.core.errors import CircuitOpen
from waystation.core.store.commands import ask, fields_of
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import get_logger
from waystation.files.job import Job
from waystation.files.metrics import Meter
from waystation.files.reasons import Reason, counts_for_breaker
from waystation.files.redis import lists
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.replies import Settlement

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


START = "0-0"
PAGE = 100
"""Entries read in one call, and about the most of a priority that a worker remembers."""
REREAD_S = 60.0
"""How often a worker reads it from the start: a clock that was set back hides new entries."""


class HandledFiles(NamedTuple):
    """The files that a worker has handlers for."""

    patterns: Sequence[str]
    """The patterns, as its heartbeat publishes them."""
    wants: Callable[[Job], bool] | None
    """True for a file that has a handler; None when every file has one."""


class Entry(NamedTuple):
    """One unmatched file."""

    id: str
    lane: int
    raw: bytes
    job: Job | None
    """None when the bytes are no job."""


class UnmatchedFiles:
    """The unmatched files from one worker's view: how far it has read, and which it can take."""

    def __init__(
        self,
        keys: FileKeys,
        wants: Callable[[Job], bool] | None = None,
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._wants = wants
        self._timer = timer
        self._reread_at = timer() + REREAD_S
        self._ours: list[list[str]] = [[] for _ in keys.queues]
        self._held_up = [False for _ in keys.queues]
        """Priorities of which the last call took nothing, such as those that are paused."""
        self._passed_over = set[int]()
        """Priorities with entries that were read and not remembered."""
        self._newest = START
        self.cursor = START

    def is_wanted(self, job: Job) -> bool:
        """True when this worker has a handler for the file."""
        return self._wants is None or self._wants(job)

    @property
    def has_new(self) -> bool:
        """True when there are new entries, and room to remember them.

        What a paused priority has does not keep the entries of the others from being read.
        """
        is_behind = _order(self.cursor) < _order(self._newest)
        moving = zip(self._ours, self._held_up, strict=True)
        return is_behind and sum(len(ids) for ids, held_up in moving if not held_up) < PAGE

    async def look(self, client: Client) -> None:
        """Read a page of new entries, and remember those for this worker."""
        if not self.has_new:
            return
        newest = self._newest
        page = await read_unmatched(client, self._keys, after=self.cursor)
        for entry in page:
            # Another call may have read the same meanwhile.
            is_new = _order(entry.id) > _order(self.cursor)
            if is_new and entry.job and self.is_wanted(entry.job):
                self._remember(entry.lane - 1, entry.id)
        self._pass(page[-1].id if page else newest)

    def _remember(self, place: int, id: str) -> None:
        if len(self._ours[place]) < 2 * PAGE:
            self._ours[place].append(id)
        else:
            self._passed_over.add(place)

    def reserve(self, most: int) -> "Picks":
        """Entries for the next call to take; no other call takes them."""
        picks = Picks([ids[:most] for ids in self._ours])
        for ids in self._ours:
            del ids[:most]
        return picks

    def release(self, picks: "Picks", tried: Sequence[int] = ()) -> None:
        """Remember the entries that a call did not try to take."""
        counts = tried or [0] * len(self._ours)
        for place, (picked, count) in enumerate(zip(picks.by_lane, counts, strict=True)):
            self._ours[place][:0] = picked[count:]
            if picked:
                self._held_up[place] = not count

    def settled(self, settlement: Settlement) -> None:
        """Note the end of the stream, and how far this worker has read."""
        self._newest = settlement.newest
        is_missing = any(not self._ours[place] for place in self._passed_over)
        if settlement.newest == START or is_missing or self._timer() >= self._reread_at:
            self._reread_at = self._timer() + REREAD_S
            self.cursor = START
            self._ours = [[] for _ in self._ours]
            self._passed_over.clear()
        else:
            self._pass(settlement.cursor)

    def _pass(self, id: str) -> None:
        self.cursor = max(self.cursor, id, key=_order)


class Picks:
    """Entries that one call tries to take, for each lane."""

    def __init__(self, by_lane: Sequence[Sequence[str]]) -> None:
        self.by_lane = by_lane
        self.text = ";".join(f"{lane},{id}" for lane, ids in enumerate(by_lane, 1) for id in ids)


async def read_unmatched(
    client: Client, keys: FileKeys, *, after: str = START, until: str = "+"
) -> list[Entry]:
    """A page of entries behind one, the oldest first."""
    page: list[Any] = await ask(client, "XRANGE", keys.unmatched, f"({after}", until, "COUNT", PAGE)
    return [_entry(keys, id.decode(), fields_of(fields)) for id, fields in page]


def _entry(keys: FileKeys, id: str, known: dict[bytes, bytes]) -> Entry:
    raw: bytes = known.get(b"job", b"")
    last = len(keys.queues)
    number = whole_number(known.get(b"lane"))
    lane = last if number is None else min(max(number, 1), last)
    return Entry(id, lane, raw, lists.read(raw))


def _order(id: str) -> tuple[int, int]:
    millis, _, number = id.partition("-")
    return int(millis), int(number)
