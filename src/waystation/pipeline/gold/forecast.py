"""Forecast of when a backlog is done, as a band calibrated on past forecasts.

The backlog is divided by the recent rate of ends. A series begins with what was open before it, so
that it ends with what is open now, however long that has waited and however others have left.

Past guesses are compared with what really happened, and the band covers the errors of most of them.
A guess whose backlog is not done yet is compared for the part that is: in the first backlog of a
queue there are no others.
"""

import datetime as dt
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

BAND = 0.9
LATELY = 5
"""Slots over which the rate of ends is measured."""
LEAST_CHECKS = 20
"""Past guesses that a band needs."""
LEAST_SLOTS = 10
"""Slots after which a guess can be compared with the part that is done."""


SLOT_S = 10
"""Seconds of a slot."""
LAST_DAY = dt.timedelta(hours=26)
"""A day, and the hours that it begins and ends in: forecasts look at no older slots."""


def first_slot(newest: dt.datetime) -> dt.datetime:
    """The first hour whose slots are counted, from the newest hour: clocks may be wrong."""
    now = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
    return min(newest, now) - LAST_DAY


class Slot(NamedTuple):
    """Jobs that arrived and ended within some seconds."""

    came: int
    ended: int


class Band(msgspec.Struct, frozen=True):
    """Factors by which the real time differs from the guess."""

    low: float
    high: float
    coverage: float
    """Share of held-out guesses that lay within the band."""
    checks: int


class Forecast(msgspec.Struct, frozen=True):
    """Seconds until a backlog is done, with a band."""

    waiting: int
    low_s: float
    likely_s: float
    high_s: float
    band: Band


def backlog(series: Sequence[Slot]) -> list[int]:
    """Open jobs at the end of each slot."""
    return list(accumulate(max(-(10**9), slot.came - slot.ended) for slot in series))


def guess(series: Sequence[Slot], at: int) -> float | None:
    """Slots until the backlog after one slot is done; None when nothing ended recently."""
    rate = _rate(series, at)
    waiting = backlog(series[: at + 1])[-1]
    return waiting / rate if rate > 0 and waiting > 0 else None


def misses(series: Sequence[Slot]) -> list[float]:
    """Real time divided by guessed time, for every slot whose backlog is done by now."""
    waiting = backlog(series)
    done = list(accumulate(slot.ended for slot in series))
    found: list[float] = []
    reached = 0
    for at in range(len(series)):
        rate = _rate(series, at)
        if rate <= 0 or waiting[at] <= 0:
            continue
        goal = done[at] + waiting[at]
        reached = max(reached, at)
        while reached < len(done) and done[reached] < goal:
            reached += 1
        if reached == len(done):
            break
        # Within the slot that reaches the goal, ends are assumed to be even.
        over = (done[reached] - goal) / max(1, series[reached].ended)
        found.append((reached - at - over) / (waiting[at] / rate))
    return found


def misses_so_far(series: Sequence[Slot]) -> list[float]:
    """The same for every slot whose backlog is not done yet, for the part of it that is."""
    waiting = backlog(series)
    done = list(accumulate(slot.ended for slot in series))
    found: list[float] = []
    for at in range(len(series) - LEAST_SLOTS):
        rate = _rate(series, at)
        # What was done earlier is not: it would seem to have taken until now.
        part = done[-1] - done[at]
        if rate > 0 and 0 < part < waiting[at]:
            found.append((len(series) - 1 - at) / (part / rate))
    return found


def calibrated(misses: Sequence[float]) -> Band | None:
    """A band from half of the misses, checked against the other half; None if there are too few."""
    if len(misses) < LEAST_CHECKS:
        return None
    # Neighbours are correlated, so runs of them are held out, not single ones.
    stretch = max(1, len(misses) // 10)
    learnt = sorted(m for i, m in enumerate(misses) if (i // stretch) % 2 == 0)
    aside = [m for i, m in enumerate(misses) if (i // stretch) % 2 == 1]
    low, high = _quantile(learnt, (1 - BAND) / 2), _quantile(learnt, (1 + BAND) / 2)
    covered = sum(low <= miss <= high for miss in aside) / max(1, len(aside))
    return Band(low, high, covered, len(misses))


def forecast(series: Sequence[Slot], *, seconds: int, band: Band | None = None) -> Forecast | None:
    """The forecast for the present backlog; None when too little is known."""
    likely = guess(series, len(series) - 1) if series else None
    if likely is None:
        return None
    band = band or calibrated([*misses(series), *misses_so_far(series)])
    if band is None:
        return None
    likely_s = likely * seconds
    return Forecast(backlog(series)[-1], likely_s * band.low, likely_s, likely_s * band.high, band)


def _rate(series: Sequence[Slot], at: int) -> float:
    """Ends per slot, lately."""
    lately = series[max(0, at + 1 - LATELY) : at + 1]
    return sum(slot.ended for slot in lately) / len(lately)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """The conformal quantile, slightly outside, so that the coverage holds for the next one."""
    if part < 0.5:
        return ordered[max(0, math.floor(part * (len(ordered) + 1)) - 1)]
    return ordered[min(len(ordered) - 1, math.ceil(part * (len(ordered) + 1)) - 1)]
