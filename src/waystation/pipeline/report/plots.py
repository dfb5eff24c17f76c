"""Plots as inline SVG, in the page's own colours, without a script."""

import datetime as dt
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from waystation.pipeline.report.words import duration

WIDTH, HEIGHT = 480, 190
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 10, 24


class Series(NamedTuple):
    """One line or one colour of bars."""

    name: str
    colour: str
    """A name that the page's style knows."""
    values: Sequence[float | None]


def bars(times: Sequence[dt.datetime], series: Sequence[Series], *, unit: str = "") -> str:
    """Bars on top of each other, one stack for each instant."""
    stacks = [sum(each.values[i] or 0 for each in series) for i in range(len(times))]
    frame = _Frame(times, max(stacks, default=0), unit)
    width = max(1.0, frame.step * 0.8)
    shapes: list[str] = []
    for i, when in enumerate(times):
        below = 0.0
        for each in series:
            value = each.values[i] or 0
            if value <= 0:
                continue
            top, bottom = frame.y(below + value), frame.y(below)
            label = f"{when:%d %b %H:%M}: {value:,.0f} {each.name}"
            shapes.append(
                f'<rect class="fill-{each.colour}" x="{frame.x(i) - width / 2:.1f}" y="{top:.1f}" '
                f'width="{width:.1f}" height="{max(0.5, bottom - top):.1f}" rx="1.5">'
                f"<title>{escape(label)}</title></rect>"
            )
            below += value
    return frame.drawn(shapes, series)


def lines(times: Sequence[dt.datetime], series: Sequence[Series], *, unit: str = "") -> str:
    """Lines over the same instants; a missing value breaks its line."""
    top = max((value or 0 for each in series for value in each.values), default=0)
    frame = _Frame(times, top, unit)
    shapes: list[str] = []
    for each in series:
        for run in _runs(each.values):
            points = " ".join(f"{frame.x(i):.1f},{frame.y(value):.1f}" for i, value in run)
            shapes.append(f'<polyline class="line-{each.colour}" points="{points}"/>')
            shapes += [
                _dot(each.colour, frame.x(i), frame.y(value), f"{value:,.4g} {unit} {each.name}")
                for i, value in run
            ]
    return frame.drawn(shapes, series)


def _dot(colour: str, x: float, y: float, label: str) -> str:
    return (
        f'<circle class="fill-{colour}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
        f"<title>{escape(label)}</title></circle>"
    )


class _Frame:
    """The axes that shapes are drawn in."""

    def __init__(self, times: Sequence[dt.datetime], top: float, unit: str) -> None:
        self._times = times
        self._top = _round_up(top)
        self._unit = unit
        self.step = (WIDTH - LEFT - RIGHT) / max(1, len(times))

    def x(self, index: int) -> float:
        return LEFT + self.step * (index + 0.5)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self._top

    def drawn(self, shapes: Sequence[str], series: Sequence[Series]) -> str:
        grid = [self._rule(self._top * quarter / 4) for quarter in range(5)]
        every = max(1, -(-len(self._times) // 4))
        ticks = [
            f'<text x="{self.x(i):.1f}" y="{HEIGHT - 6}" text-anchor="middle">'
            f"{when:%d %b %H:%M}</text>"
            for i, when in enumerate(self._times)
            if i % every == every // 2
        ]
        keys = "".join(
            f'<span><i class="key-{each.colour}"></i>{escape(each.name)}</span>' for each in series
        )
        svg = (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
            f"{''.join(grid)}{''.join(ticks)}{''.join(shapes)}</svg>"
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


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    size = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    return next(
        (step * size for step in (1, 1.2, 2, 4, 6, 8, 10) if step * size >= value), 10 * size
    )


def _short(value: float) -> str:
    for sign, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"
