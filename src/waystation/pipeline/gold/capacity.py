"""Capacity: the workers that the arrivals of an hour need."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from waystation.pipeline.gold import staffing
from waystation.pipeline.gold.staffing import MINUTE_S, Service, Slot

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
    return Advice(busiest, staffing.workers(slots, slot_s, service, target_s))
