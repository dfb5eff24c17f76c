"""What history says about waiting in a room, and how it is learnt.

People leave the line before it is their turn, so whoever has A people ahead waits less than A / μ.
With a constant hazard θ of leaving, the line ahead shrinks by μ + θ·ahead per second, which gives
W = ln(1 + θ·A / μ) / θ, and A / μ when nobody leaves.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import msgspec

STALE_MS = 6 * 3600 * 1000


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What history says about waiting in this room; the defaults stand in for it."""

    theta: float = 0.0
    """The share of those in line who leave it each second."""
    session_mean_s: float | None = None
    """How long somebody stays inside."""
    no_show: float = 0.0
    """The share of those called who do not come."""
    f10: float = 0.75
    f50: float = 1.0
    f90: float = 1.5
    """What the formula is multiplied by to get the tenth, the half and nine tenths."""
    version: str = "default"

    @classmethod
    def from_fields(cls, fields: Mapping[str, str], *, now_ms: int) -> Self:
        """Read what the pipeline wrote; what is stale or out of bounds is not believed."""
        try:
            trained_ms = int(fields["trained_at"]) * 1000
            found = {name: float(fields[name]) for name in BOUNDS if name in fields}
        except (KeyError, ValueError):
            return cls()
        sound = all(
            least <= found[name] <= most for name, (least, most) in BOUNDS.items() if name in found
        )
        ordered = found.get("f10", 0.75) <= found.get("f50", 1.0) <= found.get("f90", 1.5)
        if not sound or not ordered or now_ms - trained_ms > STALE_MS:
            return cls()
        mean = found.pop("s_mean", None)
        return cls(
            session_mean_s=mean,
            no_show=found.pop("noshow", 0.0),
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


def closed_form(ahead: float, rate: float, theta: float) -> float:
    """Seconds until `ahead` people are gone, called in at this rate or leaving of themselves."""
    if theta * ahead < 1e-9:
        return ahead / rate
    return math.log1p(theta * ahead / rate) / theta


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
        sample.waited_s / closed_form(sample.ahead + 1, sample.rate, theta)
        for sample in samples
        if sample.admitted and sample.rate > 0 and sample.ahead > 0
    )
    if not ratios:
        return msgspec.structs.replace(base, theta=theta, version=version)
    f10, f50, f90 = (_within("f50", ratios[int(q * (len(ratios) - 1))]) for q in (0.1, 0.5, 0.9))
    return msgspec.structs.replace(base, theta=theta, f10=f10, f50=f50, f90=f90, version=version)


def _within(name: str, value: float) -> float:
    least, most = BOUNDS[name]
    return min(most, max(least, value))
