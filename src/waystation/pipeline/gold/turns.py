"""Turns: how far apart two tenants of a queue came in an hour, by what each was served.

Only where both waited for nothing but their turn can that be compared. What is known of an hour is
counted in slots of ten seconds: a tenant waited throughout a slot when more of its jobs waited at
its start than were started in it.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

SLOT_S = 10
"""Seconds of a slot."""
SLOTS = 3600 // SLOT_S
MOST_COMPARED = 50
"""Tenants that are compared with each other: those that waited longest."""
_LAST_DIGITS = 1 + 1e-9


class Tenant(NamedTuple):
    """What one tenant was served in an hour, and when it waited."""

    name: str
    served: Sequence[float]
    """What was started in each slot, over its weight."""
    waited: frozenset[int]
    """The slots throughout which it waited."""
    largest: float
    """What its largest job cost, over its weight."""
    first: int | None
    """The slot in which the first job was started."""
    is_corrected: bool
    """Whether a job told another cost while it ran."""


class Apart(NamedTuple):
    """The two tenants that came furthest apart."""

    ahead: str
    behind: str
    deviation: float
    """By how much more the one was served, over their weights."""
    allowed: float
    """The largest job of each, over its weight."""
    held: bool | None
    """Whether it is no more than that; None where something else may be the reason."""


class Compared(NamedTuple):
    """All tenants of a queue in an hour."""

    seconds: int
    """Seconds throughout which two of them waited."""
    furthest: Apart | None
    """None when no two waited at the same time."""
    held: bool | None
    """Whether any two are as close as they should be; None when that is not known."""


def compared(tenants: Sequence[Tenant]) -> Compared:
    """Compare any two of them."""
    waiting = sorted(tenants, key=lambda each: (-len(each.waited), each.name))[:MOST_COMPARED]
    pairs = [apart for pair in combinations(waiting, 2) if (apart := _apart(*pair))]
    alone = [each.waited for each in waiting]
    shared = {slot for first, second in combinations(alone, 2) for slot in first & second}
    furthest = max(pairs, key=lambda each: each.deviation, default=None)
    verdicts = {each.held for each in pairs}
    held = next((each for each in (False, None, True) if each in verdicts), None)
    return Compared(len(shared) * SLOT_S, furthest, held)


def _apart(first: Tenant, second: Tenant) -> Apart | None:
    shared = first.waited & second.waited
    if not shared:
        return None
    ahead, behind = _leads(first, second, shared)
    allowed = (first.largest + second.largest) * _LAST_DIGITS
    names = (first.name, second.name) if ahead >= behind else (second.name, first.name)
    deviation = max(ahead, behind)
    held = deviation <= allowed or _unless_explained(first, second, shared, allowed)
    return Apart(*names, deviation, first.largest + second.largest, held)


def _unless_explained(
    first: Tenant, second: Tenant, shared: frozenset[int], allowed: float
) -> bool | None:
    """False when nothing but the turns can be the reason that two are too far apart."""
    if first.is_corrected or second.is_corrected or first.first is None or second.first is None:
        return None
    # Until then one may owe its turn to a large job of the hour before.
    since = max(first.first, second.first)
    known = frozenset(slot for slot in shared if slot > since)
    return False if max(_leads(first, second, known)) > allowed else None


def _leads(first: Tenant, second: Tenant, slots: frozenset[int]) -> tuple[float, float]:
    """By how much more each was served than the other, in any stretch of these slots."""
    ahead = behind = 0.0
    for run in _runs(slots):
        least = most = lead = 0.0
        for slot in run:
            lead += first.served[slot] - second.served[slot]
            least, most = min(least, lead), max(most, lead)
            ahead, behind = max(ahead, lead - least), max(behind, most - lead)
    return ahead, behind


def _runs(slots: frozenset[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for slot in sorted(slots):
        if run and slot > run[-1] + 1:
            yield run
            run = []
        run.append(slot)
    yield run


def tenant_of(name: str, counts: dict[str, Any], most: int | None, parts: Any) -> Tenant:
    """A tenant, from what was counted of it: thousandths of costs, in buckets for each slot."""
    buckets: list[dict[str, Any]] = parts.to_pylist()
    served, started = [0.0] * SLOTS, [0] * SLOTS
    came = dict[int, int]()
    weights: set[float] = set()
    for each in buckets:
        slot, many = each["bucket"], each["many"]
        match each["part"]:
            case "served":
                weight = float(each["name"])
                weights.add(weight)
                served[slot] += many / weight / 1000
            case "started":
                started[slot] += many
            case "came":
                came[slot] = came.get(slot, 0) + many
            case "went":
                came[slot] = came.get(slot, 0) - many
            case _:
                pass
    return Tenant(
        name=name,
        served=served,
        waited=_waited(came, started),
        largest=(most or 0) / 1000 / min(weights, default=1.0),
        first=next((slot for slot, many in enumerate(started) if many), None),
        is_corrected=counts["corrected"] > 0,
    )


def _waited(came: dict[int, int], started: Sequence[int]) -> frozenset[int]:
    waiting, found = came.get(-1, 0), list[int]()
    for slot, many in enumerate(started):
        if waiting > many:
            found.append(slot)
        waiting += came.get(slot, 0)
    return frozenset(found)
