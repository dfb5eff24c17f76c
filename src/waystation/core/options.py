"""Options that make sense, or an error that says what was wanted and what came."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from waystation.core.errors import InvalidOption

S = TypeVar("S", bound=msgspec.Struct)

SPOKEN = {str: "text", bool: "True or False", int: "a whole number"}


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
            f"{name} must be {SPOKEN.get(kind) or f'a {kind.__name__}'}, got {value!r}"
        )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was meant by a mistyped one, if one is near."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)


def with_keywords(
    options: S,
    given: Mapping[str, Any],
    *,
    of: str,
    others: Sequence[str] = (),
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> S:
    """The options with these keywords in their place, which are fields of theirs.

    A keyword that nobody knows is refused with the nearest one, which may be among `others`, or the
    one that another queue calls so (`elsewhere`); `of` is who takes them.
    """
    if not given:
        return options
    known = (*others, *options.__struct_fields__)
    wrong = next((name for name in given if name not in options.__struct_fields__), None)
    if wrong is None:
        return msgspec.structs.replace(options, **given)
    near = nearest(wrong, others) or elsewhere.get(wrong) or nearest(wrong, known)
    hint = f"did you mean {near}? " if near else ""
    raise InvalidOption(f"there is no option {wrong!r}; {hint}{of} takes {', '.join(known)}")
