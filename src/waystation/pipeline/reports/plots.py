"""Plots without JavaScript: series over time as SVG, a few values as bars."""

import datetime as dt
import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from waystation.pipeline.reports.words import duration

WIDTH, HEIGHT = 480, 200
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 10, 24
WIDEST_BAR = 36
MANY = 30
"""Instants from which on the points of a line are shown only on hover."""


class Series(NamedTuple):
    """One line or one colour of bars."""

    name: str
    colour: str
    """A colour name of the style sheet."""
    values: Sequence[float | None]


class Level(NamedTuple):
    """One value among a few."""

    name: str
    colour: str
    value: float
    text: str
    """The value as text."""


def bars(times: Sequence[dt.datetime], series: Sequence[Series], *, label: str = "") -> str:
    """Stacked bars, one stack for each instant."""
    stacks = [sum(each.values[i] or 0 for each in series) for i in range(len(times))]
    frame = _Frame(times, stacks, "")
    width = max(1.0, min(WIDEST_BAR, frame.step * 0.8))
    shapes: list[str] = []
    for i, when in enumerate(times):
        below = 0.0
        for each in series:
            value = each.values[i] or 0
            if value <= 0:
                continue
            top, bottom = frame.y(below + value), frame.y(below)
            said = f"{when:%d %b %H:%M}: {value:,.0f} {each.name}"
            shapes.append(
                f'<rect class="fill-{each.colour}" x="{frame.x(i) - width / 2:.1f}" y="{top:.1f}" '
                f'width="{width:.1f}" height="{max(0.5, bottom - top):.1f}" rx="1.5">'
                f"<title>{escape(said)}</title></rect>"
            )
            below += value
    return frame.drawn(shapes, series, label)


def lines(
    times: Sequence[dt.datetime], series: Sequence[Series], *, unit: str = "", label: str = ""
) -> str:
    """Lines over the same instants; a missing value breaks its line."""
    frame = _Frame(times, [value or 0 for each in series for value in each.values], unit)
    shapes: list[str] = []
    for each in series:
        for run in _runs(each.values):
            points = " ".join(f"{frame.x(i):.1f},{frame.y(value):.1f}" for i, value in run)
            shapes.append(f'<polyline class="line-{each.colour}" points="{points}"/>')
            hidden = " hidden" if len(times) > MANY and len(run) > 1 else ""
            for i, value in run:
                said = duration(value) if unit == "ms" else f"{value:,.4g}"
                title = f"{times[i]:%d %b %H:%M}: {said} {each.name}"
                shapes.append(
                    f'<circle class="fill-{each.colour}{hidden}" cx="{frame.x(i):.1f}" '
                    f'cy="{frame.y(value):.1f}" r="3"><title>{escape(title)}</title></circle>'
                )
    return frame.drawn(shapes, series, label)


def levels(values: Sequence[Level]) -> str:
    """A few values as bars."""
    top = max((each.value for each in values), default=0) or 1
    return "".join(
        f'<div class="level"><span>{escape(each.name)}</span>'
        f"<div>{_bar(each.colour, each.value / top)}</div>"
        f"<b>{escape(each.text)}</b></div>"
        for each in values
    )


def strip(parts: Sequence[Level]) -> str:
    """The parts of a whole as one bar."""
    shown = "".join(
        f'<i class="key-{each.colour}" style="flex:{each.value:g} 0 0" '
        f'title="{escape(f"{each.text} {each.name}")}"></i>'
        for each in parts
        if each.value > 0
    )
    return f'<div class="strip">{shown}</div>'


def share(value: float, most: float, colour: str) -> str:
    """A value as a bar, relative to the largest."""
    return f'<div class="strip">{_bar(colour, value / (most or 1))}</div>'


def _bar(colour: str, part: float) -> str:
    # A small value is still visible; zero is not drawn.
    return f'<i class="key-{colour}" style="width:{100 * part:.1f}%"></i>' if part > 0 else ""


class _Frame:
    """The axes that shapes are drawn in."""

    def __init__(self, times: Sequence[dt.datetime], values: Sequence[float], unit: str) -> None:
        self._times = times
        self._scale = scale_of(values, unit)
        self._unit = unit
        self.step = (WIDTH - LEFT - RIGHT) / max(1, len(times))

    def x(self, index: int) -> float:
        return LEFT + self.step * (index + 0.5)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * self._scale.height(value)

    def drawn(self, shapes: Sequence[str], series: Sequence[Series], label: str) -> str:
        grid = [self._rule(mark) for mark in self._scale.marks]
        named = [
            f'<text x="{self.x(i):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{said}</text>'
            for i, said in ticks(self._times)
        ]
        keys = "".join(
            f'<span><i class="key-{each.colour}"></i>{escape(each.name)}</span>' for each in series
        )
        svg = (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
            f"{''.join(grid)}{''.join(named)}{''.join(shapes)}</svg>"
        )
        return f"<figure>{svg}<figcaption>{keys}</figcaption></figure>"

    def _rule(self, value: float) -> str:
        y = self.y(value)
        return (
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">'
            f"{duration(value) if self._unit == 'ms' else _short(value)}</text>"
        )


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for i, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((i, value))
    return [run for run in runs if run]


def _short(value: float) -> str:
    for sign, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"


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
