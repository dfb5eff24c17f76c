"""The JSON schema of a settings file, for editors."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, cast, get_args, get_origin

import msgspec

from waystation.core.settings.section import (
    Section,
    Setting,
    is_duration,
    is_struct,
    sentences,
    settings,
    unwrapped,
)

_TYPES = {bool: "boolean", int: "integer", float: "number"}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "min_length": "minItems"}


def schema(section: type[Section]) -> dict[str, Any]:
    """The schema of a section and of the sections in it."""
    explained = sentences(section)
    properties = {each.name: _property(each, explained) for each in settings(section)}
    return {
        "type": "object",
        "description": section.__doc__ or "",
        "properties": properties,
        "additionalProperties": False,
        "required": [each.name for each in settings(section) if each.default is msgspec.NODEFAULT],
    }


def _property(setting: Setting, explained: Mapping[str, str]) -> dict[str, Any]:
    found = type_schema(setting.kind, setting.marks)
    if setting.section:
        return found
    found["description"] = explained.get(setting.field, "")
    if setting.default is not msgspec.NODEFAULT and not setting.secret:
        found["default"] = setting.plain(setting.default)
    return found


def type_schema(kind: Any, marks: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The schema of one value."""
    kind, more = unwrapped(kind)
    marks += more
    if is_struct(kind):
        return schema(kind)
    if is_duration(kind, marks):
        return {"type": "string", "examples": ["500ms", "30s", "1h30m"]}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    found: dict[str, Any] = {"type": _TYPES.get(cast(Any, kind), "string")}
    arguments = get_args(kind)
    if get_origin(kind) in (dict, Mapping):
        found = {"type": "object", "additionalProperties": type_schema(arguments[1])}
    elif len(arguments) > 1 and ... not in arguments:
        found = {"anyOf": [type_schema(each) for each in arguments]}
    elif arguments:
        found = {"type": "array", "items": type_schema(arguments[0])}
    for mark in marks:
        if isinstance(mark, msgspec.Meta):
            bounds = ((name, getattr(mark, given)) for given, name in _BOUNDS.items())
            found |= {name: bound for name, bound in bounds if bound is not None}
    return found
