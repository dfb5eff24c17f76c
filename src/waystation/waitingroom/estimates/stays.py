"""Stays: how long people stay inside and in line, learnt in the store while they do."""

import math
from collections.abc import Mapping
from typing import Self

import msgspec

FEWEST_ENDS = 5
"""Sessions that have to end before their length is known."""
FEWEST_GONE = 10
"""People who have to leave the line before their share is known."""
FEWEST_RATIOS = 30
"""Waits that have to end before their spread is known."""
FEWEST_TURNS = 20
"""Turns that have to end before the share of no-shows is known."""
MOST_THETA = 0.01
STEP = 0.02
"""The width of a step in which waits by what the formula said are counted, as a logarithm."""
USUAL, EACH = range(-11, 17), 1
"""The steps that count as seen beforehand (0.8 to 1.4), and how often each."""
SHARES = 0.15, 0.5, 0.85
"""Which of the waits that are remembered make p10, p50 and p90: with what counts as seen beforehand
and what is about to be forgotten among them, they are wider spread than the waits to come."""
MOST_OFF = 1.1
NARROWEST = 1.02
"""A range is never narrower than this to either side."""
BUCKETS = 60


class Stays(msgspec.Struct, frozen=True, kw_only=True):
    """What the room itself has learnt; None for what is not known yet."""

    session_s: float | None = None
    """How long a session lasts on average, those included that go on."""
    delay_s: float = 0.0
    """How long somebody who was called takes to come in."""
    no_show: float | None = None
    """The share of those called who do not come."""
    theta: float | None = None
    """The share of those in line who leave it each second."""
    spread: tuple[float, float, float] | None = None
    """What one in ten, one in two and nine in ten waits were, by what the formula said."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str], ratios: Mapping[str, str]) -> Self:
        """Read what the scripts have counted; what is spoiled counts as not known."""
        try:
            counts = {name: float(value) for name, value in fields.items()}
            found = {
                int(step): int(n) for step, n in ratios.items() if step not in ("all", "since")
            }
        except ValueError:
            return cls()
        claims, missed = counts.get("claims", 0.0), counts.get("no_shows", 0.0)
        return cls(
            session_s=_session(counts),
            delay_s=counts.get("delays", 0.0) / claims if claims else 0.0,
            no_show=missed / (claims + missed) if claims + missed >= FEWEST_TURNS else None,
            theta=_theta(counts),
            spread=_spread(found),
        )


def _session(counts: Mapping[str, float]) -> float | None:
    """The mean of a life table: at each age, those who ended by the time that was spent at it."""
    if counts.get("ends", 0.0) < FEWEST_ENDS:
        return None
    deaths = [counts.get(f"d{bucket}", 0.0) for bucket in range(BUCKETS)]
    spent = [counts.get(f"e{bucket}", 0.0) for bucket in range(BUCKETS)]
    if sum(spent) <= 0:
        return None
    usual = sum(deaths) / sum(spent)
    left, mean, start = 1.0, 0.0, 0.0
    # Nobody has been seen to stay longer, so nobody is expected to.
    last = max(bucket for bucket in range(BUCKETS) if spent[bucket] or deaths[bucket])
    for bucket in range(last + 1):
        end = 2 ** ((bucket + 1) / 4)
        if deaths[bucket] and spent[bucket]:
            hazard = deaths[bucket] / spent[bucket]
        else:
            hazard = 0.0 if spent[bucket] else usual
        width = end - start
        passed = math.exp(-hazard * width)
        mean += left * ((1 - passed) / hazard if hazard > 0 else width)
        left *= passed
        start = end
        if left < 1e-4:
            break
    return mean


def _theta(counts: Mapping[str, float]) -> float | None:
    gone, line = counts.get("gone", 0.0), counts.get("line", 0.0)
    return min(MOST_THETA, gone / line) if gone >= FEWEST_GONE and line > 0 else None


def _spread(ratios: Mapping[int, int]) -> tuple[float, float, float] | None:
    if sum(ratios.values()) < FEWEST_RATIOS:
        return None
    # A few waits share their luck, so what is usual elsewhere counts beside them for a while.
    ratios = {step: ratios.get(step, 0) + (step in USUAL) * EACH for step in {*ratios, *USUAL}}
    p10, p50, p90 = (_quantile(ratios, share) for share in SHARES)
    # The middle corrects what the formula gets wrong, not what an operator changed meanwhile.
    middle = min(MOST_OFF, max(1 / MOST_OFF, p50))
    return (min(p10, middle / NARROWEST), middle, max(p90, middle * NARROWEST))


def _quantile(ratios: Mapping[int, int], share: float) -> float:
    wanted, seen = share * sum(ratios.values()), 0
    for step, people in sorted(ratios.items()):
        if seen + people >= wanted > seen:
            return math.exp(STEP * (step + (wanted - seen) / people))
        seen += people
    return 1.0
