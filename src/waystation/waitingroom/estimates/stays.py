"""Stays: how long people stay inside and in line, learnt in the store while they do."""

import math
from collections.abc import Mapping
from typing import Self

import msgspec

FEWEST_ENDS = 5
"""Sessions that have to end before their length is known."""
FEWEST_GONE = 10
"""People who have to leave the line before their share is known."""
FEWEST_WAITS = 30
"""Waits that have to end before it is known how far estimates are off."""
FEWEST_TURNS = 20
"""Turns that have to end before the share of no-shows is known."""
MOST_THETA = 0.01
USUAL_NOISE, USUAL_WAITS = 1.0, 50
"""The noise of a room that nothing is known of, and how many waits that counts for."""
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
    noise: float | None = None
    """How far waits are off the formula: the deviation of their logarithm, were a line of one."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str], ratios: Mapping[str, str]) -> Self:
        """Read what the scripts have counted; what is spoiled counts as not known."""
        try:
            counts = {name: float(value) for name, value in fields.items()}
            waits, squares = (float(ratios.get(name, 0)) for name in ("waits", "squares"))
        except ValueError:
            return cls()
        claims, missed = counts.get("claims", 0.0), counts.get("no_shows", 0.0)
        return cls(
            session_s=_session(counts),
            delay_s=counts.get("delays", 0.0) / claims if claims else 0.0,
            no_show=missed / (claims + missed) if claims + missed >= FEWEST_TURNS else None,
            theta=_theta(counts),
            noise=_noise(waits, squares),
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


def _noise(waits: float, squares: float) -> float | None:
    if waits < FEWEST_WAITS:
        return None
    # Those who wait together share their luck, so what is usual elsewhere counts with them.
    return math.sqrt((squares + USUAL_WAITS * USUAL_NOISE**2) / (waits + USUAL_WAITS))
