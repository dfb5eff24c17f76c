"""The report as one self-contained HTML page with plots and tables."""

from collections.abc import Sequence
from html import escape
from typing import Any

from waystation.pipeline.deploys import Deploy
from waystation.pipeline.gold.failures import label
from waystation.pipeline.reports.facts import QueueReport, Report
from waystation.pipeline.reports.plots import Level, share, strip
from waystation.pipeline.reports.queue import anchor, section
from waystation.pipeline.reports.whole_page import table, whole_page
from waystation.pipeline.reports.words import (
    consistency,
    duration,
    first_seen,
    instant,
    moment,
    number,
    part,
)


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
        *(section(queue, n) for n, queue in enumerate(report.queues) if queue.hours),
        "<h2>Failures</h2>",
        "<p>Failures whose messages differ only in ids and numbers are counted together.</p>",
        _failures(report),
        "<h2>Workers</h2>",
        _workers(report),
    ]
    if report.gaps:
        body += ["<h2>Gaps</h2>", _gaps(report)]
    return whole_page("Queue report", body)


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
    name = f"{escape(queue.line)} / <b>{escape(queue.queue)}</b>"
    lost = ", ".join(f"<code>{escape(i)}</code>" for i in queue.lost_ids)
    linked = f'<a href="#{anchor(n)}">{name}</a>' if queue.hours else name
    return f'{linked}<br><span class="bad">lost:</span> {lost}' if lost else linked


def _whole(queue: QueueReport) -> str:
    parts = (
        ("ended", "good", queue.terminal),
        ("open", "blue", queue.visible),
        ("removed", "idle", queue.removed),
        ("lost", "bad", queue.lost),
    )
    return strip([Level(name, colour, n or 0, number(n)) for name, colour, n in parts])


def _failures(report: Report) -> str:
    most = max((row["attempts"] for row in report.failures), default=0)
    rows = [
        [
            _signature(row, report.deploys),
            escape(f"{row['line']} / {row['queue']}"),
            share(row["attempts"], most, "bad"),
            number(row["attempts"]),
            number(row["subjects"]),
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
    said = f"<code>{escape(label(row))}</code>"
    return "".join([said, *(f'<br><span class="soft">{each}</span>' for each in more if each)])


def _workers(report: Report) -> str:
    most = max((row["busy_ms"] for row in report.workers), default=0)
    rows = [
        [
            f"<code>{escape(row['worker'])}</code>",
            escape(f"{row['line']} / {row['queue']}"),
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
