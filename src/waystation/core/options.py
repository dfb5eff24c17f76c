"""Options that make sense, or an error that says what was wanted and what came."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from waystation.core.errors import InvalidOption

_SPOKEN = {str: "text", bool: "True or False", int: "a whole number"}


def at_least(name: str, value: Any, least: int) -> int:
    """The value, if it is a whole number and not less than that."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidOption(f"{name} must be at least {least}, got {value}")
    return value


def of_kind(name: str, value: Any, kind: type) -> None:
    """Refuse a value of another kind, which would only fail where nobody understands why."""
    if not isinstance(value, kind):
        raise InvalidOption(
            f"{name} must be {_SPOKEN.get(kind) or f'a {kind.__name__}'}, got {value!r}"
        )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was meant by a mistyped one, if one is near."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)


def listed(name: str, values: Any) -> None:
    """Refuse a single text where a list of them is wanted: it would be taken letter by letter."""
    if isinstance(values, str):
        raise InvalidOption(f"{name} takes a list of names, got {values!r}")
