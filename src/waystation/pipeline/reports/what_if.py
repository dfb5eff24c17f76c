"""A simulation as one self-contained HTML page: waits over time, and the figures."""

import datetime as dt
from collections.abc import Sequence
from html import escape

from waystation.pipeline.reports.parts import (
    Level,
    Series,
    chart,
    duration,
    instant,
    levels,
    number,
    part,
    table,
    whole_page,
)
from waystation.pipeline.simulation.comparison import (
    FEWEST,
    RECORDED,
    REPLAYED,
    Comparison,
    Scenario,
)
from waystation.pipeline.simulation.replay import percentile

MOST_POINTS = 200
_STEPS_S = (10, 60, 300, 900, 3_600, 4 * 3_600, 86_400, 7 * 86_400)
_TITLE = "95 % waited no longer"
_COLOURS = ("plum", "teal", "busy", "good", "late", "bad")


def what_if_page(name: str, found: Comparison) -> str:
    """The scenarios of a comparison as an HTML page."""
    start, end = map(instant, found.period)
    title = f"Simulation of {name}"
    sentences = " ".join(f"{each[0].upper()}{each[1:]}." for each in found.sentences())
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{number(found.attempts)} attempts from {start} to {end} UTC.</p>',
        f"<p>{escape(sentences)}</p>",
        f'<div class="pair"><div class="card"><h3>{_TITLE}</h3>{_chart(found)}</div>',
        f'<div class="card"><h3>Worker-hours</h3>{_hours(found)}</div></div>',
        _table(found.scenarios),
    ]
    return whole_page(title, body)


def _chart(found: Comparison) -> str:
    step_s = next((each for each in _STEPS_S if found.span_s / each <= MOST_POINTS), _STEPS_S[-1])
    many = int(found.span_s // step_s) + 1
    times = [found.start + dt.timedelta(seconds=n * step_s) for n in range(many)]
    series = [
        Series(_label(each), colour, _over_time(each, step_s, many))
        for each, colour in _coloured(found)
    ]
    return chart(_TITLE, times, series, timed=True)


def _hours(found: Comparison) -> str:
    return levels(
        [
            Level(_label(each), colour, each.worker_hours, f"{each.worker_hours:,.1f}")
            for each, colour in _coloured(found)
            if each.worker_hours is not None
        ]
    )


def _coloured(found: Comparison) -> list[tuple[Scenario, str]]:
    # The replay of what was is a check of the simulation; the table has it.
    shown = [each for each in found.scenarios if each.name != REPLAYED]
    return list(zip(shown, _COLOURS, strict=False))


def _over_time(scenario: Scenario, step_s: float, many: int) -> list[float | None]:
    found: list[list[float]] = [[] for _ in range(many)]
    for ready, wait in zip(*scenario.waits, strict=True):
        # Attempts may become ready later than they did.
        found[min(many - 1, int(ready // step_s))].append(wait)
    return [percentile(waits, 0.95) if waits else None for waits in found]


def _label(each: Scenario) -> str:
    more = f", {each.name}" if each.name in (RECORDED, FEWEST) else ""
    return f"{each.workers:,} workers{more}"


def _table(scenarios: Sequence[Scenario]) -> str:
    heads = ("", "workers", "wait p50", "p95", "p99", "late", "worker-hours", "busy")
    rows = [
        (
            escape(each.name),
            number(each.workers),
            *map(duration, (each.wait_p50_ms, each.wait_p95_ms, each.wait_p99_ms)),
            part(each.late),
            "-" if each.worker_hours is None else f"{each.worker_hours:,.1f}",
            part(each.busy),
        )
        for each in scenarios
    ]
    return table(heads, rows, numbers=range(1, len(heads)))
