"""Staffing: the workers that keep nearly all waits of an hour below a target, bursts included.

Jobs wait for two reasons. Chance: random arrivals and run times, for which Erlang's formula gives
the wait at a steady rate; it is applied to the busiest minutes. Bursts: for a while more jobs
arrive than can be done; they are simulated slot by slot. A worker with concurrency n counts as n.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

LATE = 0.05
"""Share of all waits that may be longer than the target."""
MINUTE_S = 60.0
_FOR_CHANCE = LATE / 2
"""Of that, the share for chance; as much may arrive in minutes busier than planned for."""
_FOR_BURSTS = LATE * 0.7
_ALIKE = 0.25
"""A spread below which run times count as equal."""


class Slot(NamedTuple):
    """Jobs that became ready within one slot of an hour."""

    number: int
    many: int


class Service(NamedTuple):
    """Run times of attempts."""

    mean_s: float
    spread: float
    """Variance divided by the squared mean: 0 for equal run times, 1 for exponential ones."""


def slot_seconds(target_s: float) -> float:
    """The length of a slot for a target."""
    return min(max(target_s / 2, 0.25), 15.0)


def workers(slots: Sequence[Slot], slot_s: float, service: Service, target_s: float) -> int:
    """The fewest workers with which at most `LATE` of the waits are longer than the target."""
    total = sum(slot.many for slot in slots)
    service = Service(max(service.mean_s, 0.001), max(service.spread, 0.0))
    fewest = _for_chance(_busy_load(slots, slot_s, service, target_s), service, target_s)
    if service.spread < _ALIKE and target_s <= service.mean_s:
        # All finish together, so arrivals within one run time count as simultaneous.
        slots, slot_s = _coarser(slots, slot_s, service.mean_s), service.mean_s

    def are_enough(places: int) -> bool:
        late = _late_in_bursts(slots, slot_s, places, service, target_s)
        return late <= _FOR_BURSTS * total

    most = fewest
    while not are_enough(most):
        fewest, most = most + 1, most * 2
    while fewest < most:
        middle = (fewest + most) // 2
        if are_enough(middle):
            most = middle
        else:
            fewest = middle + 1
    return fewest


def _busy_load(slots: Sequence[Slot], slot_s: float, service: Service, target_s: float) -> float:
    """Mean busy workers in the busiest minutes, except for a few arrivals."""
    window_s = max(MINUTE_S, 2 * target_s)
    windows = Counter[int]()
    for slot in slots:
        windows[int(slot.number * slot_s // window_s)] += slot.many
    total = windows.total()
    usual = total / (max(windows) + 1)
    # Minutes within the range of chance need no workers of their own.
    busy = [many for many in windows.values() if many > usual + 3 * math.sqrt(usual) + 1]
    load, passed = usual, 0
    for many in sorted(busy, reverse=True):
        passed += many
        if passed > _FOR_CHANCE * total:
            load = many
            break
    return load * service.mean_s / window_s


def _for_chance(load: float, service: Service, target_s: float) -> int:
    """Workers by Erlang C, with the Allen-Cunneen correction for the spread of run times."""
    pace_s = service.mean_s * (1 + service.spread) / 2
    blocked, places = 1.0, 0
    while True:
        places += 1
        blocked = load * blocked / (places + load * blocked)
        if places <= load:
            continue
        waits = blocked / (1 - load / places * (1 - blocked))
        if waits * math.exp(-(places - load) * target_s / pace_s) <= _FOR_CHANCE:
            return places


def _late_in_bursts(
    slots: Sequence[Slot], slot_s: float, places: int, service: Service, target_s: float
) -> float:
    """Jobs that wait longer than the target with so many workers."""
    in_time = places * (1 + _done_within(target_s, service))
    there = late = 0.0
    last = 0
    for number, many in slots:
        there = _left(there, (number - last) * slot_s, places, service.mean_s)
        late += min(float(many), max(0.0, there + many - in_time))
        there += many
        last = number
    return late


def _left(there: float, after_s: float, places: int, mean_s: float) -> float:
    """Jobs that are left after some time."""
    crowded_s = max(0.0, there - places) * mean_s / places
    if after_s <= crowded_s:
        return there - places * after_s / mean_s
    return min(there, places) * math.exp(-(after_s - crowded_s) / mean_s)


def _done_within(target_s: float, service: Service) -> float:
    """Jobs that one worker finishes within the target after it has begun one."""
    ends = target_s / service.mean_s
    # Equal run times end together, and none early.
    even = math.floor(ends)
    return even + (ends - even) * min(service.spread, 1.0)


def _coarser(slots: Sequence[Slot], slot_s: float, wanted_s: float) -> list[Slot]:
    found = Counter[int]()
    for slot in slots:
        found[int(slot.number * slot_s // wanted_s)] += slot.many
    return [Slot(*each) for each in sorted(found.items())]


DEFAULT_TARGET_MS = 1_000
"""Target wait, in milliseconds."""


class Advice(NamedTuple):
    """Arrivals per second in the busiest minute, and the workers needed; None if nothing ran."""

    busiest_per_s: float
    workers_needed: int | None


def advised(
    slots: Sequence[Slot],
    slot_s: float,
    target_s: float,
    *,
    mean: float | None,
    spread: float | None,
) -> Advice:
    """The advice for an hour, from its arrivals, and mean and spread of its run times."""
    minutes = Counter[int]()
    for slot in slots:
        minutes[int(slot.number * slot_s // MINUTE_S)] += slot.many
    busiest = max(minutes.values(), default=0) / MINUTE_S
    if mean is None:
        return Advice(busiest, None)
    if not slots:
        return Advice(busiest, 1)
    service = Service(mean / 1000, 1.0 if spread is None else spread)
    return Advice(busiest, workers(slots, slot_s, service, target_s))
