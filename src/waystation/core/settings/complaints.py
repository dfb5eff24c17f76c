"""What is wrong with a setting, in one line that says what was wanted and what came."""

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from waystation.core.errors import InvalidSetting
from waystation.core.settings.section import Section
from waystation.core.settings.sources import Key, printable
from waystation.core.settings.table import section_at, table, without_secrets

_WANTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "enum": "{expected}",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of sensible size",
    "int_type": "a whole number",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_type": "a section with keys of its own",
    "path_type": "a path",
    "string_type": "text",
    "too_short": "at least {min_length} of them",
    "tuple_type": "a list",
    "wanted": "{what}",
}
_LONGEST_ECHO = 60


def complaint(
    error: ValidationError, origins: Mapping[Key, str], top: type[Section]
) -> InvalidSetting:
    """Turn what the model refused into the one line a person reads."""
    details = error.errors(include_url=False)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return InvalidSetting(_sentence(details[0], origins, top) + more)


def _sentence(detail: ErrorDetails, origins: Mapping[Key, str], top: type[Section]) -> str:
    key = tuple(str(part) for part in detail["loc"])
    name = printable(".".join(key)) + _place(key, origins)
    match detail["type"]:
        case "extra_forbidden":
            return f"{name} is not a setting; {_advice(key, top)}"
        case "value_error":
            return f"{name}: {detail.get('ctx', {}).get('error')}"
        case kind if kind in _WANTED:
            wanted = _WANTED[kind].format_map(detail.get("ctx", {}))
            return f"{name} wants {wanted}, got {_echo(key, detail['input'], top)}"
        case _:
            return f"{name} is refused: {detail['msg']}"


def _place(key: Key, origins: Mapping[Key, str]) -> str:
    # An item of a list stands where the list does, an unknown section where its first key does.
    above = (origins.get(key[:length]) for length in range(len(key), 0, -1))
    below = (origin for other, origin in origins.items() if other[: len(key)] == key)
    place = next(filter(None, chain(above, below)), None)
    return f" ({place})" if place else ""


def _advice(key: Key, top: type[Section]) -> str:
    *above, name = key
    section = section_at(tuple(above), top)
    names = list(section.model_fields) if section else []
    elsewhere = [setting.name for setting in table(top) if setting.key[-1] == name]
    near = elsewhere or [".".join((*above, near)) for near in get_close_matches(name, names, n=1)]
    if near:
        return f"did you mean {near[0]}?"
    return f"{'.'.join(above) or 'the top'} has {', '.join(names)}"


def _echo(key: Key, value: Any, top: type[Section]) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "keys with values"
        case list():
            return "a list"
        case _ if section_at(key, top):
            return "a single value"
        case _:
            secret = any(setting.secret for setting in table(top) if setting.key == key)
            text = without_secrets(str(value)) if secret or "://" in str(value) else str(value)
            return repr(text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + "…")
