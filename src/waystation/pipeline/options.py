"""What a Spark user may ask of our data sources, parsed once."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from waystation.core.errors import InvalidOption

T = TypeVar("T", bound=msgspec.Struct)

_SPARK_ADDS = frozenset({"path", "checkpointlocation", "queryname"})


def parse(given: Mapping[str, str], kind: type[T]) -> T:
    """Read options, whose names Spark leaves without case, into their struct."""
    fields = {
        field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(kind)
    }
    named: dict[str, str] = {}
    for name, value in given.items():
        known = fields.get(name.lower())
        if known is not None:
            named[known] = value
        elif name.lower() not in _SPARK_ADDS:
            raise InvalidOption(f"wanted one of {', '.join(fields.values())}; got {name!r}")
    try:
        return msgspec.convert(named, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"{_dotless(str(error))}; got {_shown(named)}") from None


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number below the least that makes sense."""
    if value < least:
        raise InvalidOption(f"{name} must be at least {least}, got {value}")


def listed(text: str) -> list[str]:
    """The parts of a text that commas separate."""
    return [part for each in text.split(",") if (part := each.strip())]


def _dotless(message: str) -> str:
    return message.replace("`$.", "`")


def _shown(named: Mapping[str, str]) -> str:
    # A URL may hold a password.
    return ", ".join(f"{name}={value}" for name, value in named.items() if name != "url")
