"""When what waits will be done, as a band that was checked against what really happened.

A backlog is divided by the lately seen rate of ends. How far such guesses were off in the past is
measured at instants whose truth is known by now, and the band is what most of them needed.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BAND = 0.9
LATELY = 5
"""Slots over which the rate of ends is seen."""
LEAST_CHECKS = 20
"""Guesses whose truth must be known before a band is told."""


class Slot(NamedTuple):
    """What came and what ended within some seconds."""

    came: int
    ended: int


class Band(msgspec.Struct, frozen=True):
    """How many times longer than guessed it took."""

    low: float
    high: float
    coverage: float
    """The part of guesses, kept aside, whose truth lay within."""
    checks: int


class Forecast(msgspec.Struct, frozen=True):
    """When a backlog will be done."""

    waiting: int
    low_s: float
    likely_s: float
    high_s: float
    band: Band


def slots(steps: DataFrame, *, seconds: int) -> DataFrame:
    """What came and ended in each queue, by slots of so many seconds."""
    event = F.col("event")
    slot = F.floor(F.unix_seconds("at") / seconds).alias("slot")
    return steps.groupBy("line", "queue", slot).agg(
        F.count_if(F.col("birth") | F.col("again")).cast("int").alias("came"),
        F.count_if(event.isin("completed", "failed")).cast("int").alias("ended"),
    )


def backlog(series: Sequence[Slot]) -> list[int]:
    """What waited or was in hand at the end of each slot."""
    return list(accumulate(max(-(10**9), slot.came - slot.ended) for slot in series))


def guess(series: Sequence[Slot], at: int) -> float | None:
    """Slots until what is there after one slot will be done; None when nothing ended lately."""
    lately = series[max(0, at + 1 - LATELY) : at + 1]
    rate = sum(slot.ended for slot in lately) / len(lately)
    waiting = backlog(series[: at + 1])[-1]
    return waiting / rate if rate > 0 and waiting > 0 else None


def misses(series: Sequence[Slot]) -> list[float]:
    """How many times longer than guessed it took, wherever the truth is known by now."""
    waiting = backlog(series)
    done = list(accumulate(slot.ended for slot in series))
    found: list[float] = []
    reached = 0
    for at in range(len(series)):
        lately = series[max(0, at + 1 - LATELY) : at + 1]
        rate = sum(slot.ended for slot in lately) / len(lately)
        if rate <= 0 or waiting[at] <= 0:
            continue
        goal = done[at] + waiting[at]
        reached = max(reached, at)
        while reached < len(done) and done[reached] < goal:
            reached += 1
        if reached == len(done):
            break
        # Within the slot that reaches the goal, ends are taken to be even.
        over = (done[reached] - goal) / max(1, series[reached].ended)
        found.append((reached - at - over) / (waiting[at] / rate))
    return found


def calibrated(misses: Sequence[float]) -> Band | None:
    """A band from every other miss, checked against those between; None when there are too few."""
    if len(misses) < LEAST_CHECKS:
        return None
    # Neighbours are alike, so stretches are taken in turn, not single ones.
    stretch = max(1, len(misses) // 10)
    learnt = sorted(m for i, m in enumerate(misses) if (i // stretch) % 2 == 0)
    aside = [m for i, m in enumerate(misses) if (i // stretch) % 2 == 1]
    low, high = _quantile(learnt, (1 - BAND) / 2), _quantile(learnt, (1 + BAND) / 2)
    covered = sum(low <= miss <= high for miss in aside) / max(1, len(aside))
    return Band(low, high, covered, len(misses))


def forecast(series: Sequence[Slot], *, seconds: int, band: Band | None = None) -> Forecast | None:
    """When what waits now will be done; None when too little is known to say."""
    band = band or calibrated(misses(series))
    likely = guess(series, len(series) - 1) if series else None
    if band is None or likely is None:
        return None
    likely_s = likely * seconds
    return Forecast(backlog(series)[-1], likely_s * band.low, likely_s, likely_s * band.high, band)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """The conformal quantile: a little outside, so that the promise holds for the next one too."""
    if part < 0.5:
        return ordered[max(0, math.floor(part * (len(ordered) + 1)) - 1)]
    return ordered[min(len(ordered) - 1, math.ceil(part * (len(ordered) + 1)) - 1)]
