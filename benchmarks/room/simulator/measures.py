"""The verdict of a simulation: safety, fairness, exactness and honesty of estimates."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from benchmarks.room.simulator.people import Crowd, Person
from waystation.waitingroom.visitor import Lane

TOGETHER_S = 600
"""People who join within this time share their luck: the calls and the leaving they wait for."""


class Verdict(NamedTuple):
    """One figure, and what it should be."""

    name: str
    seen: str
    wanted: str
    holds: bool


def inversions(order: Sequence[int]) -> int:
    """Pairs that stand the wrong way round: Kendall's distance, by merging."""
    if len(order) < 2:
        return 0
    middle = len(order) // 2
    left, right = order[:middle], order[middle:]
    if all(a <= b for a, b in pairwise(order)):
        return 0
    crossed = inversions(left) + inversions(right)
    merged_left, merged_right = sorted(left), sorted(right)
    at = 0
    for each in merged_left:
        while at < len(merged_right) and merged_right[at] < each:
            at += 1
        crossed += at
    return crossed


def fairness(called: Sequence[Person]) -> Iterable[Verdict]:
    """Nobody overtakes in a lane, whoever they are and wherever they come from."""
    for lane in Lane:
        order = [person.number for person in called if person.lane is lane]
        if order:
            distance = inversions(order)
            name = f"people overtaken in the {lane.name.lower()} lane"
            yield Verdict(name, f"{distance} of {len(order):,}", "0", distance == 0)
    for name, belongs in _GROUPS.items():
        inside, outside = _mean_wait(called, belongs, True), _mean_wait(called, belongs, False)
        ratio = inside / outside if outside else 1.0
        yield Verdict(
            f"wait of those {name}", f"{ratio:.3f}", "0.95 to 1.05", 0.95 <= ratio <= 1.05
        )


def shares(turns: Sequence[int], weights: Sequence[int]) -> Iterable[Verdict]:
    """While every lane waits, each gets its share of the turns."""
    total = sum(turns)
    if not total:
        return
    for lane in Lane:
        share, due = turns[lane] / total, weights[lane] / sum(weights)
        off = share / due - 1
        name = f"share of the {lane.name.lower()} lane"
        yield Verdict(name, f"{share:.4f} ({off:+.2%})", f"{due:.4f} ±2 %", abs(off) <= 0.02)


def exactness(crowd: Crowd, came_in: int, seconds: float) -> Verdict:
    """As many come in as should, though some of those called stay away."""
    pace = came_in / seconds if seconds else 0.0
    off = pace / crowd.rate - 1
    return Verdict(
        f"people who come in per second, {crowd.no_show:.0%} staying away",
        f"{pace:.2f} ({off:+.2%})",
        f"{crowd.rate:.2f} ±2 %",
        abs(off) <= 0.02,
    )


class Honesty(NamedTuple):
    """How good the estimates were."""

    people: int
    error: float
    """The mean of how far off the middle was, by what the wait turned out to be."""
    covered: float
    """The share of waits between p10 and p90."""
    doubt: float
    """The standard error of that share, which the length of the evening decides, not the people."""


def honesty(called: Iterable[Person]) -> Honesty:
    """Compare the estimates that people got on joining with how long they waited."""
    estimated = [each for each in called if each.p50 >= 0 and each.called_s - each.joined_s > 30]
    if not estimated:
        return Honesty(0, 0.0, 1.0, 0.0)
    waits = [each.called_s - each.joined_s for each in estimated]
    pairs = list(zip(estimated, waits, strict=True))
    error = sum(abs(each.p50 - wait) / wait for each, wait in pairs) / len(pairs)
    held = [(each.joined_s, each.p10 <= wait <= each.p90) for each, wait in pairs]
    covered = sum(each for _, each in held) / len(held)
    return Honesty(len(held), error, covered, _doubt(held, covered))


def _doubt(held: Sequence[tuple[float, bool]], covered: float) -> float:
    """The error of a mean over people who come in groups: only the groups are independent."""
    off: dict[float, float] = defaultdict(float)
    for joined_s, inside in held:
        off[joined_s // TOGETHER_S] += inside - covered
    if len(off) < 2:
        return 1.0
    spread = sum(each**2 for each in off.values()) * len(off) / (len(off) - 1)
    return math.sqrt(spread) / len(held)


def estimates(before: Honesty, after: Honesty) -> Iterable[Verdict]:
    """The estimates of the second half, which knows what the first half taught."""
    error, covered = f"{after.error:.1%}", f"{after.covered:.1%} ± {after.doubt:.1%}"
    yield Verdict("error of the estimated wait", error, "≤ 10 %", after.error <= 0.10)
    yield Verdict("waits between p10 and p90", covered, "75 to 85 %", 0.75 <= after.covered <= 0.85)
    yield Verdict(
        "the same before anything was learnt",
        f"{before.error:.1%}, {before.covered:.1%}",
        "worse",
        before.error >= after.error,
    )


_GROUPS: Mapping[str, Callable[[Person], bool]] = {
    "behind one network": lambda each: each.shared,
    "with a hidden tab": lambda each: each.hidden,
}


def _mean_wait(called: Iterable[Person], belongs: Callable[[Person], bool], wanted: bool) -> float:
    waits = [
        each.called_s - each.joined_s
        for each in called
        if each.lane is Lane.PREMIUM and belongs(each) is wanted
    ]
    return sum(waits) / len(waits) if waits else 0.0
