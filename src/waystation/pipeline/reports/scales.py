"""Scales and ticks of plots."""

import datetime as dt
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

_LADDER = (
    1.0, 10.0, 100.0, 1e3, 1e4, 6e4, 6e5, 3.6e6, 3.6e7, 8.64e7, 8.64e8, 8.64e9,
)  # fmt: skip
"""Round durations in milliseconds, each about ten times the one before."""


class Scale(NamedTuple):
    """A scale from values to heights."""

    marks: Sequence[float]
    """The values marked on the axis."""
    height: Callable[[float], float]
    """From 0 at the bottom to 1 at the top."""


def scale_of(values: Sequence[float], unit: str) -> Scale:
    """A linear scale; a logarithmic one for times that differ by more than a hundred."""
    top = max(values, default=0.0)
    least = min((value for value in values if value > 0), default=0.0)
    return _tenfold(least, top) if unit == "ms" and top > 100 * least > 0 else _even(top)


def ticks(times: Sequence[dt.datetime]) -> list[tuple[int, str]]:
    """The instants with a label: days when there are several, else hours."""
    days = [
        i
        for i, when in enumerate(times)
        if when.hour == 0 and (i == 0 or times[i - 1].date() != when.date())
    ]
    if len(days) > 2:
        return [(i, f"{times[i].day} {times[i]:%b}") for i in days[:: -(-len(days) // 7)]]
    every = max(1, -(-len(times) // 4))
    named = range(every // 2, len(times), every)
    return [(i, f"{times[i].day} {times[i]:%b %H:%M}") for i in named]


def _even(top: float) -> Scale:
    end = _round_up(top)

    def height(value: float) -> float:
        return value / end

    return Scale([end * quarter / 4 for quarter in range(5)], height)


def _tenfold(least: float, top: float) -> Scale:
    first = max(i for i, rung in enumerate(_LADDER) if rung <= max(least, _LADDER[0]))
    last = next((i for i, rung in enumerate(_LADDER) if rung >= top), len(_LADDER) - 1)
    marks = _LADDER[first : last + 1]
    low, span = math.log(marks[0]), math.log(marks[-1] / marks[0])

    def height(value: float) -> float:
        return (math.log(max(value, marks[0])) - low) / span

    return Scale(marks, height)


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    size = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(
        (step * size for step in (1, 1.2, 2, 4, 6, 8, 10) if step * size >= value), 10 * size
    )
