"""Numbers in the query of a request: what is checked is what is returned."""

from waystation.core.errors import InvalidInput
from waystation.core.http.exchange import Request


def whole(request: Request, name: str, default: int, *, least: int, most: int) -> int:
    """A whole number in these bounds."""
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise InvalidInput(
            f"{name} must be a whole number from {least} to {most}, got {text[:40]!r}"
        )
    return int(text)
