"""One job as text: a line for each field and step, and tracebacks as Python prints them."""

from collections.abc import Iterator, Mapping
from typing import Any

from waystation.core import codec

_BLOCKS = ("stacktrace", "logs")
_NAMES = 16


def sheet(known: Mapping[str, Any]) -> str:
    """The fields of a job; those without a value are left out."""
    return "\n".join(_lines(known))


def _lines(known: Mapping[str, Any]) -> Iterator[str]:
    for name, value in known.items():
        if value is None or value == [] or (name == "steps" and not value):
            continue
        if name == "steps":
            yield f"{name}:"
            yield from (
                f"  {step:<{_NAMES - 2}}  {codec.text_of(done)}" for step, done in value.items()
            )
        elif name in _BLOCKS:
            yield f"{name}:"
            for text in value:
                yield from (f"  {line}" for line in str(text).splitlines())
        else:
            yield f"{name:<{_NAMES}}  {codec.text_of(value)}"
