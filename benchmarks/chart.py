"""A bar chart as SVG, for pages that show figures."""

from collections.abc import Callable, Sequence
from html import escape

WIDTH, LEFT, BAR, GAP, TOP = 720, 220, 22, 10, 44


def bars(
    title: str,
    rows: Sequence[tuple[str, float]],
    *,
    length: Callable[[float], float] = float,
    form: str = ",.0f",
) -> str:
    """Horizontal bars, one for each row, as long as its value says, which stands behind it."""
    most = max(length(value) for _, value in rows)
    height = TOP + len(rows) * (BAR + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="12" y="26" font-size="15" font-weight="600" fill="#1b1b1b">'
        f"{escape(title)}</text>",
    ]
    for place, (name, value) in enumerate(rows):
        y = TOP + place * (BAR + GAP)
        wide = max(1.0, (WIDTH - LEFT - 90) * length(value) / most)
        base = y + BAR * 0.72
        parts += [
            f'<text x="{LEFT - 10}" y="{base:.0f}" font-size="13" text-anchor="end" '
            f'fill="#1b1b1b">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR}" rx="3" fill="#2f6f9f"/>',
            f'<text x="{LEFT + wide + 8:.1f}" y="{base:.0f}" font-size="13" '
            f'fill="#1b1b1b">{value:{form}}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
