"""The model of a room's waits, and how it is fitted to history.

People leave the line before it is their turn, so whoever has A people ahead waits less than A / μ.
With a constant hazard θ of leaving, the line ahead shrinks by μ + θ·ahead per second, which gives
W = ln(1 + θ·A / μ) / θ, and A / μ when nobody leaves.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import astuple, replace

from waystation.core import codec
from waystation.core.errors import Malformed

STALE_MS = 6 * 3600 * 1000
STEP = 4
"""Lines are alike that reach the same power of this: 1, 4, 16, 64 people and so on."""
FEWEST_VISITS = 50
"""Fewer of them say too little about a room, or about lines that are alike."""
MOST_POINTS = 16
LINES = tuple(STEP**power for power in range(9))
"""The lengths of line that a room works out its ranges for by itself."""
WITHIN = 1.45
"""How many deviations either way four in five waits lie within; 1.28 were the noise known well."""
NARROWEST = 1.02
"""Such a range is never narrower than this to either side."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """What the formula is multiplied by where so many people come first, oneself included."""

    people: int
    """How many people come first."""
    f10: float
    """The factor that one in ten waits stay below."""
    f50: float
    """The factor that half of the waits stay below."""
    f90: float
    """The factor that nine in ten waits stay below."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What history says about waiting in this room; the defaults stand in for it."""

    theta: float = 0.0
    """The share of those in line who leave it each second."""
    session_mean_s: float | None = None
    """How long somebody stays inside."""
    no_show: float = 0.0
    """The share of those called who do not come."""
    f10: float = 0.75
    """The factor that one in ten waits stay below."""
    f50: float = 1.0
    """The factor that half of the waits stay below."""
    f90: float = 1.5
    """What the formula is multiplied by to get the tenth, the half and nine tenths."""
    points: tuple[Point, ...] = ()
    """The same by the length of the line, the shortest first; between them lie straight lines."""
    version: str = "default"
    """The training that it comes from."""

    @property
    def everywhere(self) -> Point:
        """The factors of the whole room, which hold for every line as long as none has its own."""
        return Point(1, self.f10, self.f50, self.f90)

    @classmethod
    def from_fields(cls, fields: Mapping[str, str], *, now_ms: int) -> Self:
        """Read what the pipeline wrote; what is stale or out of bounds is not believed."""
        try:
            trained_ms = int(fields["trained_at"]) * 1000
            found = {name: float(fields[name]) for name in BOUNDS if name in fields}
            points = codec.decode(fields.get("points", "[]"), tuple[Point, ...])
        except (KeyError, ValueError, Malformed):
            return cls()
        sound = all(
            least <= found[name] <= most for name, (least, most) in BOUNDS.items() if name in found
        )
        ordered = found.get("f10", 0.75) <= found.get("f50", 1.0) <= found.get("f90", 1.5)
        stale = now_ms - trained_ms > STALE_MS
        if stale or not sound or not ordered or not _are_sound(points):
            return cls()
        mean = found.pop("s_mean", None)
        return cls(
            session_mean_s=mean,
            no_show=found.pop("noshow", 0.0),
            points=points,
            version=fields.get("v", "unnamed"),
            **found,
        )

    def to_fields(self, *, trained_at: int) -> dict[str, str]:
        """The hash that `from_fields` reads."""
        fields = {
            "v": self.version,
            "theta": f"{self.theta:.9g}",
            "noshow": f"{self.no_show:.6g}",
            "f10": f"{self.f10:.6g}",
            "f50": f"{self.f50:.6g}",
            "f90": f"{self.f90:.6g}",
            "trained_at": str(trained_at),
        }
        if self.session_mean_s is not None:
            fields["s_mean"] = f"{self.session_mean_s:.6g}"
        if self.points:
            rounded = [[round(part, 4) for part in astuple(point)] for point in self.points]
            fields["points"] = codec.encode(rounded).decode()
        return fields


BOUNDS: Mapping[str, tuple[float, float]] = {
    "theta": (0.0, 0.01),
    "s_mean": (1.0, 86_400.0),
    "noshow": (0.0, 0.6),
    "f10": (0.3, 4.0),
    "f50": (0.3, 4.0),
    "f90": (0.3, 4.0),
}
"""What a model may say; the names are those of the hash."""


def within(name: str, value: float) -> float:
    """The nearest that a model may say."""
    least, most = BOUNDS[name]
    return min(most, max(least, value))


def points_of(noise: float) -> tuple[Point, ...]:
    """The range of each length of line: chance evens out with the root of the people."""
    offs = [(people, WITHIN * noise / math.sqrt(people)) for people in LINES]
    return tuple(
        Point(
            people,
            within("f10", min(1 / NARROWEST, math.exp(-off))),
            1.0,
            within("f90", max(NARROWEST, math.exp(off))),
        )
        for people, off in offs
    )


def closed_form(ahead: float, rate: float, theta: float) -> float:
    """Seconds until `ahead` people are gone, called in at this rate or leaving of themselves."""
    share = theta * ahead / rate
    return ahead / rate if share < 1e-9 else math.log1p(share) / theta


class Sample(NamedTuple):
    """One visit: what was known on joining, and what came of it."""

    ahead: int
    rate: float
    """The pace of the lane at that time."""
    waited_s: float
    admitted: bool
    """Whether they were called, rather than gone before."""


def fit(samples: Sequence[Sample], *, version: str, base: Model | None = None) -> Model:
    """Learn θ and the spread of the formula from visits."""
    base = base or Model()
    watched = sum(sample.waited_s for sample in samples)
    gone = sum(not sample.admitted for sample in samples)
    theta = min(BOUNDS["theta"][1], gone / watched) if watched else 0.0
    ratios = sorted(
        (sample.ahead, sample.waited_s / closed_form(sample.ahead + 1, sample.rate, theta))
        for sample in samples
        if sample.admitted and sample.rate > 0 and sample.ahead > 0
    )
    learnt = replace(base, theta=theta, version=version)
    if not ratios:
        return learnt
    overall = _point(ratios)
    alike = (list(each) for _, each in groupby(ratios, key=lambda each: reached(each[0])))
    points = [_point(each, otherwise=overall) for each in alike]
    return replace(learnt, f10=overall.f10, f50=overall.f50, f90=overall.f90, points=tuple(points))


def reached(ahead: int) -> int:
    """The largest power of the step that a line reaches."""
    return STEP ** int(math.log(ahead, STEP) + 1e-9)


def _point(ratios: Sequence[tuple[int, float]], *, otherwise: Point | None = None) -> Point:
    people = ratios[len(ratios) // 2][0] + 1
    if otherwise and len(ratios) < FEWEST_VISITS:
        return replace(otherwise, people=people)
    spread = sorted(ratio for _, ratio in ratios)
    f10, f50, f90 = (within("f50", spread[int(q * (len(spread) - 1))]) for q in (0.1, 0.5, 0.9))
    return Point(people, f10, f50, f90)


def _are_sound(points: Sequence[Point]) -> bool:
    least, most = BOUNDS["f50"]
    return (
        len(points) <= MOST_POINTS
        and all(each.people >= 1 for each in points)
        and all(shorter.people < longer.people for shorter, longer in pairwise(points))
        and all(least <= each.f10 <= each.f50 <= each.f90 <= most for each in points)
    )
