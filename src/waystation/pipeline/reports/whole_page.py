"""What all HTML pages of reports share: one file with its style and script, tables and charts."""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import NamedTuple

import msgspec


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
