"""The section of the HTML page about one queue."""

import datetime as dt
from collections.abc import Sequence
from html import escape
from typing import Any

from waystation.pipeline.reports.facts import QueueReport
from waystation.pipeline.reports.plots import Level, Series, bars, levels, lines
from waystation.pipeline.reports.words import duration, moment, number, part

FEW = 3
"""Hours below which totals are shown instead of plots over time."""

_ENDS = (
    ("completed", "good", "completed"),
    ("retried", "warn", "retried"),
    ("failed", "bad", "failed for good"),
)
_PARTS = ((50, "teal", "median"), (95, "blue", "95 %"), (99, "plum", "99 %"))
_STAFF = (("busy_workers", "teal", "busy"), ("workers_needed", "blue", "needed"))


def section(queue: QueueReport, n: int) -> str:
    """The section: a paragraph and four plots."""
    plots = _in_all(queue) if len(queue.hours) < FEW else _over_time(queue)
    return (
        f'<h2 id="{anchor(n)}"><small>{escape(queue.line)} /</small> {escape(queue.queue)}</h2>'
        f"<p>{_times(queue)} {_forecast(queue)}</p><p>{_staff(queue)}</p>"
        f'<div class="pair">{"".join(_card(title, plot) for title, plot in plots)}</div>'
    )


def anchor(n: int) -> str:
    """The id of a queue's section."""
    return f"queue-{n}"


def _over_time(queue: QueueReport) -> list[tuple[str, str]]:
    ends, waits, runs = (
        "Outcomes of attempts by the hour",
        "Wait",
        "Run time",
    )
    staff = _staff_title(queue)
    times, rows = _every_hour(queue.hours)
    work, needed = _every_hour(queue.needed)
    return [
        (ends, bars(times, _series(rows, _ENDS), label=ends)),
        (waits, lines(times, _series(rows, _named("wait")), unit="ms", label=waits)),
        (runs, lines(times, _series(rows, _named("run")), unit="ms", label=runs)),
        (staff, lines(work, _series(needed, _STAFF), label=staff)),
    ]


def _in_all(queue: QueueReport) -> list[tuple[str, str]]:
    last = queue.needed[-1:]
    return [
        ("Outcomes of attempts", levels(_summed(queue.hours, _ENDS))),
        ("Wait", levels(_spread(queue.wait_ms))),
        ("Run time", levels(_spread(queue.run_ms))),
        (_staff_title(queue), levels(_summed(last, _STAFF))),
    ]


def _summed(rows: Sequence[dict[str, Any]], fields: Sequence[tuple[str, str, str]]) -> list[Level]:
    sums = [sum(row[field] or 0 for row in rows) for field, _, _ in fields]
    return [
        Level(name, colour, value, f"{value:,.3g}" if value < 100 else number(value))
        for (_, colour, name), value in zip(fields, sums, strict=True)
    ]


def _spread(times: Sequence[float | None]) -> list[Level]:
    return [
        Level(name, colour, ms or 0, duration(ms))
        for (_, colour, name), ms in zip(_PARTS, times, strict=True)
    ]


def _named(of: str) -> list[tuple[str, str, str]]:
    return [(f"{of}_p{part}_ms", colour, name) for part, colour, name in _PARTS]


def _series(rows: Sequence[dict[str, Any]], fields: Sequence[tuple[str, str, str]]) -> list[Series]:
    return [
        Series(name, colour, [row.get(field) for row in rows]) for field, colour, name in fields
    ]


def _every_hour(
    rows: Sequence[dict[str, Any]],
) -> tuple[list[dt.datetime], list[dict[str, Any]]]:
    """All hours from the first to the last, empty ones included."""
    if not rows:
        return [], []
    known = {row["hour"]: row for row in rows}
    first, last = rows[0]["hour"], rows[-1]["hour"]
    many = round((last - first) / dt.timedelta(hours=1)) + 1
    times = [first + dt.timedelta(hours=n) for n in range(many)]
    return times, [known.get(hour, {}) for hour in times]


def _times(queue: QueueReport) -> str:
    return (
        f"Wait: median {duration(queue.wait_ms[0])}, 95 % below {duration(queue.wait_ms[1])}. "
        f"Run time: median {duration(queue.run_ms[0])}, 95 % below {duration(queue.run_ms[1])}."
    )


def _forecast(queue: QueueReport) -> str:
    found = queue.forecast
    if found is None:
        return ""
    return (
        f"The {number(found.waiting)} open jobs will be done in {duration(1000 * found.low_s)} to "
        f"{duration(1000 * found.high_s)}; {part(found.band.coverage)} of {found.band.checks} past "
        "forecasts were right."
    )


def _staff(queue: QueueReport) -> str:
    """The workers that the busiest hour needs, the reason, and the waits that were."""
    known = [row for row in queue.needed if row["workers_needed"] is not None]
    if not known:
        return ""
    row = max(known, key=lambda each: each["workers_needed"])
    came, ran = number(row["busiest_per_s"] * 60), duration(row["service_mean_ms"])
    waited = next(
        (each["wait_p95_ms"] for each in queue.hours if each["hour"] == row["hour"]), None
    )
    really = "" if waited is None else f" Really, 95 % waited less than {duration(waited)}."
    return (
        f"Busiest hour: {moment(row['hour'])}, up to {came} jobs in a minute, {ran} each on "
        f"average. {number(row['workers_needed'])} at a time keep 95 % of such waits below "
        f"{duration(row['target_wait_ms'])}.{really}"
    )


def _staff_title(queue: QueueReport) -> str:
    target = queue.needed[-1]["target_wait_ms"] if queue.needed else None
    return f"Workers for waits below {duration(target)}"


def _card(title: str, content: str) -> str:
    return f'<div class="card"><h3>{escape(title)}</h3>{content}</div>'
