"""Errors in the settings: one line with the place, what was wanted and what came."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import chain

from waystation.core.errors import InvalidSetting
from waystation.core.settings.entries import Key, Value
from waystation.core.settings.secrets import without_secrets
from waystation.core.settings.section import Section, rows, section_at, settings
from waystation.core.settings.sources import printable
from waystation.core.settings.values import Problem, Refused, Unknown, Wrong

_LONGEST_ECHO = 60


def complaint(
    problems: Sequence[Problem], origins: Mapping[Key, str], top: type[Section]
) -> InvalidSetting:
    """The one line that a person reads."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return InvalidSetting(_sentence(problems[0], origins, top) + more)


def _sentence(problem: Problem, origins: Mapping[Key, str], top: type[Section]) -> str:
    match problem:
        case Unknown():
            name = _named(problem.key, origins)
            return f"{name} is not a setting; {_advice(problem.key, top)}"
        case Refused():
            return _refusal(problem, origins, top)
        case Wrong():
            name = _named(problem.key, origins)
            return f"{name} wants {problem.wanted}, got {_echo(problem.key, problem.value, top)}"


def _refusal(problem: Refused, origins: Mapping[Key, str], top: type[Section]) -> str:
    said, got, value = printable(problem.message).rpartition(", got ")
    if "://" in value:
        value = repr(without_secrets(value.strip("'\"")))
    field, _, rest = f"{said}{got}{value}".partition(" ")
    section = section_at(top, problem.key)
    names = {each.field: each.name for each in settings(section)} if section else {}
    # A part of a setting may be named, too, such as queues.high.
    head, *parts = field.split(".")
    if head not in names:
        return f"{_named(problem.key, origins)}: {field} {rest}"
    return f"{_named((*problem.key, names[head], *parts), origins)} {rest}"


def _named(key: Key, origins: Mapping[Key, str]) -> str:
    # An item of a list stands where the list does, an unknown section where its first key does.
    above = (origins.get(key[:length]) for length in range(len(key), 0, -1))
    below = (origin for other, origin in origins.items() if other[: len(key)] == key)
    place = next(filter(None, chain(above, below)), None)
    return printable(".".join(key)) + (f" ({place})" if place else "")


def _advice(key: Key, top: type[Section]) -> str:
    *above, name = key
    section = section_at(top, tuple(above))
    names = [each.name for each in settings(section)] if section else []
    elsewhere = [row.name for row in rows(top) if row.key[-1] == name]
    near = elsewhere or [".".join((*above, near)) for near in get_close_matches(name, names, n=1)]
    if near:
        return f"did you mean {near[0]}?"
    return f"{'.'.join(above) or 'the top'} has {', '.join(names)}"


def _echo(key: Key, value: Value, top: type[Section]) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "keys with values"
        case list():
            return "a list"
        case _ if section_at(top, key):
            return "a single value"
        case _:
            secret = any(row.setting.secret for row in rows(top) if row.key == key)
            text = without_secrets(value) if secret or "://" in value else value
            return repr(text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + "…")
