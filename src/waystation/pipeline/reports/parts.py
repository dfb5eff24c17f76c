"""What reports share: numbers, durations and verdicts as text, and the tables and charts of a page.

A page is one file with its style and script.
"""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from waystation.pipeline.deploys import Deploy, soon_before


def number(value: float | None) -> str:
    """A whole number with thousands separators."""
    return "-" if value is None else f"{value:,.0f}"


def duration(millis: float | None) -> str:
    """Milliseconds in a suitable unit."""
    if millis is None:
        return "-"
    if millis == 0:
        return "0"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if millis >= size:
            return f"{millis / size:.3g} {unit}"
    return f"{millis:.3g} ms"


def first_seen(failure: dict[str, Any], deploys: Sequence[Deploy]) -> str:
    """When a failure began, where a deploy came soon before; else empty."""
    found = soon_before(failure["first_at"], deploys)
    if found is None:
        return ""
    later = duration((failure["first_at"] - found.deployed_at).total_seconds() * 1000)
    return f"first seen {later} after deploy {found.name}"


def more(shown: int, in_all: int | None) -> str:
    """How many are not shown; empty when all are."""
    return f"and {number(in_all - shown)} more" if in_all and in_all > shown else ""


def part(value: float | None) -> str:
    """A share in percent."""
    return "-" if value is None else f"{100 * value:.3g} %"


def instant(value: Any) -> str:
    """An instant in UTC, to the second."""
    return "-" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


def moment(value: Any) -> str:
    """An instant in UTC, short enough for a table."""
    return "-" if value is None else f"{value.day} {value:%b %H:%M}"


def consistency(failed: list[str], many: int) -> str:
    """The result of the consistency checks in a sentence."""
    if failed:
        return f"The tables do not agree: {'; '.join(failed)}."
    return f"The tables agree in {many} checks." if many else "No checks were made."


def verdict(clean: bool | None, *, lost: int = 0, duplicated: int = 0, unseen: int = 0) -> str:
    """The result of the ledger in a sentence."""
    if clean:
        return "All jobs are accounted for: none lost, none completed twice, no events missing."
    if clean is None:
        return "Without a snapshot of the queues the ledger cannot say whether jobs are lost."
    parts = [
        f"{number(lost)} lost" if lost else "none lost",
        f"{number(duplicated)} completed twice" if duplicated else "none completed twice",
        f"{number(unseen)} events trimmed before they were read" if unseen else "no events missing",
    ]
    return f"The ledger is not clean: {', '.join(parts)}."


class Series(msgspec.Struct, frozen=True):
    """One line of a chart; a missing value breaks it."""

    name: str
    kind: str
    """A colour name of the style sheet."""
    values: Sequence[float | None]


class Level(NamedTuple):
    """One value among a few."""

    name: str
    kind: str
    value: float
    text: str
    """The value as text."""


def whole_page(title: str, body: Iterable[str]) -> str:
    """A self-contained page."""
    # Modules of one file need not name each other.
    script = re.sub("^import .*|^export ", "", _joined(*_MODULES), flags=re.MULTILINE)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_joined('charts.css', 'page.css')}</style></head>"
        f'<body>{"".join(body)}<script type="module">{script}</script></body></html>\n'
    )


_MODULES = ("dom.js", "format.js", "charts.js", "page.js")


def _joined(*names: str) -> str:
    shared = resources.files("waystation.core").joinpath("pages")
    own = resources.files("waystation.pipeline.reports")
    return "".join(
        (own if name.startswith("page.") else shared).joinpath(name).read_text() for name in names
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int]) -> str:
    """A table of texts that are HTML already; columns of numbers are aligned to the right."""
    right = set(numbers)

    def cells(kind: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{kind}{' class=n' if i in right else ''}>{value}</{kind}>"
            for i, value in enumerate(values)
        )

    listed = [f"<tr>{cells('td', row)}</tr>" for row in rows]
    if not listed:
        return NONE
    return (
        f'<div class="card"><table><thead><tr>{cells("th", list(heads))}</tr></thead>'
        f"<tbody>{''.join(listed)}</tbody></table></div>"
    )


NONE = '<p class="soft">None.</p>'


def chart(
    title: str, times: Sequence[dt.datetime], series: Sequence[Series], *, timed: bool = False
) -> str:
    """Lines over the same instants, drawn by the page itself; timed ones are in seconds."""
    if not times:
        return NONE
    instants = [when.timestamp() for when in times]
    shown = {"title": title, "times": instants, "series": series, "timed": timed}
    values = msgspec.json.encode(shown).decode().replace("<", "\\u003c")
    return (
        f'<figure><script type="application/json">{values}</script>'
        "<noscript>The chart needs JavaScript.</noscript></figure>"
    )


def levels(values: Sequence[Level]) -> str:
    """A few values as bars."""
    top = max((each.value for each in values), default=0) or 1
    return "".join(
        f'<div class="level"><span>{escape(each.name)}</span>'
        f"<div>{_bar(each.kind, each.value / top)}</div>"
        f"<b>{escape(each.text)}</b></div>"
        for each in values
    )


def strip(parts: Sequence[Level]) -> str:
    """The parts of a whole as one bar."""
    shown = "".join(
        f'<i class="{each.kind}" style="flex:{each.value:g} 0 0" '
        f'title="{escape(f"{each.text} {each.name}")}"></i>'
        for each in parts
        if each.value > 0
    )
    return f'<div class="strip">{shown}</div>'


def share(value: float, most: float, kind: str) -> str:
    """A value as a bar, relative to the largest."""
    return f'<div class="strip">{_bar(kind, value / (most or 1))}</div>'


def _bar(kind: str, part: float) -> str:
    # A small value is still visible; zero is not drawn.
    return f'<i class="{kind}" style="width:{100 * part:.1f}%"></i>' if part > 0 else ""
