"""The report as one self-contained HTML page with charts and tables."""

import datetime as dt
from collections.abc import Sequence
from html import escape
from typing import Any

from waystation.pipeline.deploys import Deploy
from waystation.pipeline.gold.cells import failure_label
from waystation.pipeline.reports.facts import MOST_QUEUES, SPAN, QueueReport, Report
from waystation.pipeline.reports.parts import (
    Level,
    Series,
    chart,
    consistency,
    duration,
    first_seen,
    instant,
    levels,
    moment,
    more,
    number,
    part,
    share,
    strip,
    table,
    whole_page,
)
from waystation.pipeline.reports.receipt_page import receipt_section


def html_report(report: Report) -> str:
    """The report as an HTML page."""
    body = [
        "<h1>Queue report</h1>",
        f'<p class="soft">{_span(report)}</p>',
        _verdict(report),
        _tiles(report),
        "<h2>Ledger</h2>",
        "<p>Every job that was added has ended, is in the queue, was removed, or is lost.</p>",
        _ledger(report.queues),
        _charted(report.queues),
        *(section(queue, n) for n, queue in enumerate(report.queues) if queue.hours),
        *_tenants(report),
        "<h2>Failures</h2>",
        "<p>Failures whose messages differ only in ids and numbers are counted together.</p>",
        _failures(report),
        _more(len(report.failures), report.failures_in_all),
        "<h2>Workers</h2>",
        _workers(report),
        _more(len(report.workers), report.workers_in_all),
    ]
    if report.gaps:
        body += ["<h2>Gaps</h2>", _gaps(report), _more(len(report.gaps), report.gaps_in_all)]
    return whole_page("Queue report", body)


def _tenants(report: Report) -> list[str]:
    if not report.tenants:
        return []
    shown = [receipt_section(each, SPAN) for each in report.tenants[:MOST_QUEUES]]
    about = "<p>What each was served of the queues in which they take turns.</p>"
    return ["<h2>Tenants</h2>", about, *shown, _more(len(shown), len(report.tenants))]


def _more(shown: int, in_all: int) -> str:
    others = more(shown, in_all)
    return f'<p class="soft">{others}</p>' if others else ""


def _charted(queues: Sequence[QueueReport]) -> str:
    charted = sum(bool(queue.hours) for queue in queues)
    if charted < MOST_QUEUES or charted == len(queues):
        return ""
    return f'<p class="soft">Charts are shown of the {charted} busiest queues.</p>'


def _span(report: Report) -> str:
    if report.first_at is None:
        return "The history is empty."
    return (
        f"From {instant(report.first_at)} to {instant(report.last_at)} UTC, "
        f"written {instant(report.made_at)}."
    )


def _verdict(report: Report) -> str:
    kind = {True: "good", False: "bad", None: ""}[report.clean]
    return (
        f'<div class="verdict {kind}"><b>{escape(report.verdict)}</b>'
        f'<span class="soft">{escape(_consistency(report))}</span></div>'
    )


def _tiles(report: Report) -> str:
    def total(name: str) -> int:
        return sum(getattr(queue, name) or 0 for queue in report.queues)

    tiles = [
        (number(report.events), "events"),
        (number(total("added")), "added"),
        (number(total("completed")), "completed"),
        (number(total("retried")), "retried"),
        (number(total("failed")), "failed for good"),
        (number(total("stalled")), "stalled"),
        (number(report.corrupt), "malformed events"),
    ]
    shown = "".join(f'<div class="tile"><b>{n}</b>{escape(what)}</div>' for n, what in tiles)
    return f'<div class="tiles">{shown}</div>'


def _consistency(report: Report) -> str:
    failed = [str(check) for check in report.checks if not check.passed]
    return consistency(failed, len(report.checks))


def _ledger(queues: Sequence[QueueReport]) -> str:
    rows = [
        [
            _name(each, n),
            _whole(each),
            number(each.acknowledged),
            number(each.terminal),
            number(each.visible),
            number(each.removed),
            _bad_unless_zero(each.lost),
            _bad_unless_zero(each.duplicated),
            _bad_unless_zero(each.gaps),
        ]
        for n, each in enumerate(queues)
    ]
    heads = ["queue", "", "added", "ended", "open", "removed", "lost", "completed twice"]
    return table([*heads, "events missed"], rows, numbers=range(2, 9))


def _name(queue: QueueReport, n: int) -> str:
    name = f"{escape(queue.product)} / <b>{escape(queue.queue)}</b>"
    others = more(len(queue.lost_ids), queue.lost)
    lost = ", ".join(filter(None, (*(f"<code>{escape(i)}</code>" for i in queue.lost_ids), others)))
    linked = f'<a href="#{anchor(n)}">{name}</a>' if queue.hours else name
    return f'{linked}<br><span class="bad">lost:</span> {lost}' if lost else linked


def _whole(queue: QueueReport) -> str:
    parts = (
        ("ended", "good", queue.terminal),
        ("open", "busy", queue.visible),
        ("removed", "calm", queue.removed),
        ("lost", "bad", queue.lost),
    )
    return strip([Level(name, kind, n or 0, number(n)) for name, kind, n in parts])


def _failures(report: Report) -> str:
    most = max((row["attempts"] for row in report.failures), default=0)
    rows = [
        [
            _signature(row, report.deploys),
            escape(f"{row['product']} / {row['queue']}"),
            share(row["attempts"], most, "bad"),
            number(row["attempts"]),
            number(row["jobs"]),
            part(row["retry_helps"]),
            moment(row["first_at"]),
            moment(row["last_at"]),
        ]
        for row in report.failures
    ]
    heads = ["message", "queue", "", "attempts", "jobs", "retry helped", "first"]
    return table([*heads, "last"], rows, numbers=range(3, 8))


def _signature(row: dict[str, Any], deploys: Sequence[Deploy]) -> str:
    examples = ", ".join(f"<code>{escape(i)}</code>" for i in row["examples"])
    more = (escape(first_seen(row, deploys)), examples and f"for example {examples}")
    said = f"<code>{escape(failure_label(row))}</code>"
    return "".join([said, *(f'<br><span class="soft">{each}</span>' for each in more if each)])


def _workers(report: Report) -> str:
    most = max((row["busy_ms"] for row in report.workers), default=0)
    rows = [
        [
            f"<code>{escape(row['worker'])}</code>",
            escape(f"{row['product']} / {row['queue']}"),
            share(row["busy_ms"], most, "teal"),
            duration(row["busy_ms"]),
            number(row["attempts"]),
            number(row["completed"]),
            number(row["failed"]),
            _bad_unless_zero(row["stalled"]),
            moment(row["last_at"]),
        ]
        for row in report.workers
    ]
    heads = ["worker", "queue", "", "busy", "attempts", "completed", "failed", "stalled"]
    return table([*heads, "last seen"], rows, numbers=range(3, 9))


def _gaps(report: Report) -> str:
    rows = [
        [
            f"<code>{escape(row['stream'])}</code>",
            number(row["lost"]),
            escape(row["reason"]),
            f"<code>{escape(row['after'])}</code>",
            f"<code>{escape(row['before'])}</code>",
            moment(row["before_at"]),
        ]
        for row in report.gaps
    ]
    return table(["stream", "entries", "reason", "after", "before", "until"], rows, numbers=[1])


def _bad_unless_zero(value: int | None) -> str:
    kind = "" if value is None else "good" if value == 0 else "bad"
    return f'<span class="{kind}">{number(value)}</span>'


FEW = 3
"""Hours below which totals are shown instead of charts over time."""

_ENDS = (
    ("completed", "good", "completed"),
    ("retried", "late", "retried"),
    ("failed", "bad", "failed for good"),
)
_PARTS = ((50, "teal", "median"), (95, "busy", "95 %"), (99, "plum", "99 %"))
_STAFF = (("busy_workers", "teal", "busy"), ("workers_needed", "busy", "needed"))


def section(queue: QueueReport, n: int) -> str:
    """The section: a paragraph and four charts."""
    charts = _in_all(queue) if len(queue.hours) < FEW else _over_time(queue)
    return (
        f'<h2 id="{anchor(n)}"><small>{escape(queue.product)} /</small> {escape(queue.queue)}</h2>'
        f"<p>{_times(queue)} {_forecast(queue)}</p><p>{_staff(queue)}</p>"
        f'<div class="pair">{"".join(_card(*each) for each in charts)}</div>'
    )


def anchor(n: int) -> str:
    """The id of a queue's section."""
    return f"queue-{n}"


def _over_time(queue: QueueReport) -> list[tuple[str, str]]:
    times, rows = _every_hour(queue.hours)
    work, needed = _every_hour(queue.needed)
    ends = [Series(name, kind, [row.get(field, 0) for row in rows]) for field, kind, name in _ENDS]
    staff = [Series(name, kind, [row.get(field) for row in needed]) for field, kind, name in _STAFF]
    charts = [
        ("Outcomes of attempts by the hour", times, ends, False),
        ("Wait", times, _percentiles(rows, "wait"), True),
        ("Run time", times, _percentiles(rows, "run"), True),
        (_staff_title(queue), work, staff, False),
    ]
    return [(title, chart(title, at, lines, timed=timed)) for title, at, lines, timed in charts]


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
        Level(name, kind, value, f"{value:,.3g}" if value < 100 else number(value))
        for (_, kind, name), value in zip(fields, sums, strict=True)
    ]


def _spread(times: Sequence[float | None]) -> list[Level]:
    return [
        Level(name, kind, ms or 0, duration(ms))
        for (_, kind, name), ms in zip(_PARTS, times, strict=True)
    ]


def _percentiles(rows: Sequence[dict[str, Any]], of: str) -> list[Series]:
    return [
        Series(
            name, kind, [ms and ms / 1000 for row in rows for ms in [row.get(f"{of}_p{part}_ms")]]
        )
        for part, kind, name in _PARTS
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
