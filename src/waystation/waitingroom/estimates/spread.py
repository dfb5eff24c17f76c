"""The spread of an estimate: p10, p50 and p90 around the formula."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple, TypeAlias

import msgspec

from waystation.waitingroom.estimates.model import Model, closed_form

Line: TypeAlias = tuple[float, float]
"""The seconds it starts at, and how many it rises by with each second of the formula."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait in seconds; one in ten is below p10, one in ten above p90."""

    p10: float
    p50: float
    p90: float


class Spread(NamedTuple):
    """The wait of anybody in line, at one pace.

    A point of the model says what the formula is multiplied by for one length of line. From point
    to point the wait is a straight line over what the formula says, and no point lies below that
    of a shorter line: so nobody's wait jumps or rises while people before them go.
    """

    rate: float
    theta: float
    bends: list[float]
    """What the formula says at each point."""
    stretches: list[tuple[float, Line, Line, Line]]
    """Up to the first bend, between two, and from the last on: where it starts, and the lines."""

    @classmethod
    def of(cls, model: Model, rate: float) -> "Spread":
        """What a model says at so many people per second, which must not be 0."""
        points = model.points or (model.everywhere,)
        bends = [closed_form(point.people, rate, model.theta) for point in points]
        p10 = _lines(bends, [point.f10 for point in points])
        p50 = _lines(bends, [point.f50 for point in points])
        p90 = _lines(bends, [point.f90 for point in points])
        return cls(rate, model.theta, bends, list(zip((0.0, *bends), p10, p50, p90, strict=True)))

    def wait(self, people: float) -> Wait:
        """How long the last of so many people waits."""
        formula_s = closed_form(people, self.rate, self.theta)
        start, (p10, s10), (p50, s50), (p90, s90) = self.stretches[bisect(self.bends, formula_s)]
        further = formula_s - start
        return Wait(p10=p10 + s10 * further, p50=p50 + s50 * further, p90=p90 + s90 * further)


def _lines(bends: Sequence[float], factors: Sequence[float]) -> Iterator[Line]:
    waits = accumulate(map(mul, bends, factors), max)
    knots = [(0.0, 0.0), *zip(bends, waits, strict=True)]
    for (since, low), (until, high) in pairwise(knots):
        yield low, (high - low) / (until - since)
    yield knots[-1][1], factors[-1]
