"""Entries of settings: values with the places where they were written."""

from typing import TypeAlias

import msgspec

Key: TypeAlias = tuple[str, ...]
Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"


class Entry(msgspec.Struct, frozen=True):
    """One value and the place where it was written; a mapping is an empty one before its keys."""

    key: Key
    value: Value
    origin: str
