"""Receipts as HTML: shares over time, how far tenants came apart, and the figures of each."""

import datetime as dt
from collections.abc import Sequence
from html import escape

from waystation.pipeline.reports.parts import (
    Level,
    Series,
    chart,
    duration,
    levels,
    more,
    number,
    part,
    share,
    table,
    whole_page,
)
from waystation.pipeline.reports.receipt import NO_GROUP, TenantsReport, amount

MOST = 20
"""Tenants with a row."""
FEW = 3
"""Hours below which totals are shown instead of charts over time."""
_COLOURS = ("teal", "busy", "plum", "late", "good")
_HOUR = dt.timedelta(hours=1)


def receipt_page(found: Sequence[TenantsReport], span: str, tenant: str | None = None) -> str:
    """Receipts as a page."""
    body = ["<h1>Who was served what</h1>", f'<p class="soft">{escape(span)}</p>']
    return whole_page("Receipt", [*body, *(receipt_section(each, span, tenant) for each in found)])


def receipt_section(found: TenantsReport, span: str, tenant: str | None = None) -> str:
    """One receipt: a sentence, two charts and a table."""
    kind = "bad" if found.held(False) else "good" if found.held(True) else ""
    return (
        f"<h2><small>bullmq /</small> {escape(found.queue)}</h2>"
        f'<div class="verdict {kind}"><b>{escape(found.sentence(span, tenant))}</b></div>'
        f'<div class="pair">{_card("Share of the service", _shares(found))}'
        f"{_card('How far two tenants that waited came apart', _apart(found))}</div>"
        f"{_tenants(found)}"
    )


def _card(title: str, content: str) -> str:
    return f'<div class="card"><h3>{escape(title)}</h3>{content}</div>'


def _times(found: TenantsReport) -> list[dt.datetime]:
    """All hours from the first to the last."""
    if not found.hours:
        return []
    first, last = found.hours[0]["hour"], found.hours[-1]["hour"]
    return [first + n * _HOUR for n in range((last - first) // _HOUR + 1)]


def _shares(found: TenantsReport) -> str:
    top = found.tenants[: len(_COLOURS)]
    times = _times(found)
    if len(times) < FEW:
        return levels(
            [
                Level(each.name, colour, each.share or 0, part(each.share))
                for each, colour in zip(top, _COLOURS, strict=False)
            ]
        )
    series = [
        Series(each.name, colour, [100 * found.shares[each.tenant].get(at, 0) for at in times])
        for each, colour in zip(top, _COLOURS, strict=False)
    ]
    return chart("Share of the service, in %", times, series)


def _apart(found: TenantsReport) -> str:
    known = {row["hour"]: row for row in found.hours if row["deviation"] is not None}
    times = _times(found)
    if len(times) < FEW or not known:
        row = found.furthest
        if row is None:
            return '<p class="soft">No two waited at the same time.</p>'
        pair = (("apart", "busy", row["deviation"]), ("allowed", "calm", row["allowed"]))
        return levels([Level(name, kind, value, amount(value)) for name, kind, value in pair])
    lines = (("apart", "busy", "deviation"), ("allowed", "calm", "allowed"))
    series = [
        Series(name, kind, [known[at][column] if at in known else None for at in times])
        for name, kind, column in lines
    ]
    return chart("Cost over weight", times, series)


def _tenants(found: TenantsReport) -> str:
    most = max((each.service for each in found.tenants), default=0)
    rows = [
        [
            f"<b>{escape(each.tenant)}</b>" if each.tenant else f"<i>{NO_GROUP}</i>",
            share(each.service, most, "teal"),
            part(each.share),
            amount(each.service),
            number(each.started),
            duration(each.wait_mean_ms),
            duration(each.wait_p50_ms),
            duration(each.wait_p95_ms),
            duration(each.wait_p99_ms),
            duration(each.waiting_s * 1000),
        ]
        for each in found.tenants[:MOST]
    ]
    heads = ["tenant", "", "share", "service", "jobs", "wait mean", "p50", "p95", "p99", "waiting"]
    others = more(len(rows), len(found.tenants))
    said = f'<p class="soft">{others}</p>' if others else ""
    return table(heads, rows, numbers=range(2, 10)) + said
