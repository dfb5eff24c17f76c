"""Parameters behind the question mark: read and checked."""

from typing import Any

from waystation.core.errors import InvalidInput
from waystation.core.http.exchange import Request, whole

__all__ = ["page", "text", "whole", "word"]

MOST_PAGE = 500
DEEPEST = 1_000_000
PAGE: dict[str, dict[str, Any]] = {
    "offset": {"type": "integer", "minimum": 0, "maximum": DEEPEST},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_PAGE},
}
"""The parameters of a page, as the document describes them."""


def page(request: Request, *, default: int = 50) -> tuple[int, int]:
    """The offset and the limit."""
    offset = whole(request, "offset", 0, least=0, most=DEEPEST)
    return offset, whole(request, "limit", default, least=1, most=MOST_PAGE)


def word(request: Request, name: str, allowed: tuple[str, ...], default: str) -> str:
    """One of some words."""
    text = request.query.get(name, default)
    if text not in allowed:
        raise InvalidInput(f"{name} must be one of {', '.join(allowed)}, got {text[:40]!r}")
    return text


def text(request: Request, name: str, *, most: int = 200) -> str:
    """A text, at most so long."""
    given = request.query.get(name, "").strip()
    if len(given) > most:
        raise InvalidInput(f"{name} may have {most} characters, got {len(given)}")
    return given
