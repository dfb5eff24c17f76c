"""What all HTML pages of reports share: one file with its style, and tables."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

STYLE = resources.files("waystation.pipeline.reports").joinpath("page.css").read_text()


def whole_page(title: str, body: Iterable[str]) -> str:
    """A self-contained page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
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
        return '<p class="soft">None.</p>'
    return (
        f'<div class="card"><table><thead><tr>{cells("th", list(heads))}</tr></thead>'
        f"<tbody>{''.join(listed)}</tbody></table></div>"
    )
