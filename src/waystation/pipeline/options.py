"""Options of Spark data sources, read into structs. Internal."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from waystation.core.errors import InvalidOption

T = TypeVar("T", bound=msgspec.Struct)

_ADDED_BY_SPARK = frozenset({"path", "checkpointlocation", "queryname"})


def parse(given: Mapping[str, str], kind: type[T]) -> T:
    """Read options into their struct; Spark does not keep the case of their names."""
    fields = {
        field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(kind)
    }
    named: dict[str, str] = {}
    for name, value in given.items():
        known = fields.get(name.lower())
        if known is not None:
            named[known] = value
        elif name.lower() not in _ADDED_BY_SPARK:
            raise InvalidOption(f"wanted one of {', '.join(fields.values())}; got {name!r}")
    try:
        return msgspec.convert(named, kind, strict=False)
    except msgspec.ValidationError as error:
        # A URL may hold a password.
        shown = ", ".join(f"{name}={value}" for name, value in named.items() if name != "url")
        message = str(error).replace("`$.", "`")
        raise InvalidOption(f"{message}; got {shown}") from None


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise InvalidOption(f"{name} must be at least {least}, got {value}")


def split_list(text: str) -> list[str]:
    """The parts of a text that are separated by commas."""
    return [part for each in text.split(",") if (part := each.strip())]
