"""From text to values: what was written becomes the type that a setting is declared with."""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import msgspec

from waystation.core.durations import format_duration, parse_duration
from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.settings.section import (
    Section,
    Setting,
    is_duration,
    is_struct,
    settings,
    unwrapped,
)
from waystation.core.settings.sources import Key, Value, read_text

_DURATION = "a duration such as 500ms, 30s or 1h30m"
_TRUE = ("true", "yes", "on", "y", "t", "1")
_FALSE = ("false", "no", "off", "n", "f", "0")


class Wrong(Exception):
    """A value is not what its setting wants."""

    def __init__(self, key: Key, value: Value, wanted: str) -> None:
        super().__init__(wanted)
        self.key = key
        self.value = value
        self.wanted = wanted
        self.about = (key[-1:], repr(value), wanted)


class Unknown(Exception):
    """A key is not a setting."""

    def __init__(self, key: Key) -> None:
        super().__init__()
        self.key = key
        self.about = key


class Refused(Exception):
    """A section refuses what it was given; the message begins with the field that is wrong."""

    def __init__(self, key: Key, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.message = self.about = message


Problem = Wrong | Unknown | Refused


def build(
    section: type[Section], written: Value, key: Key, problems: list[Problem], default: Any = None
) -> Any:
    """The section that was written; None after adding what is wrong with it to the problems.

    What was not written is as in the default, if there is one.
    """
    if written is None:
        written = {}
    if not isinstance(written, dict):
        problems.append(Wrong(key, written, "a section with keys of its own"))
        return None
    before = len(problems)
    fields = {each.name: each for each in settings(section)}
    problems += [Unknown((*key, name)) for name in written if name not in fields]
    given: dict[str, Any] = {}
    for name, setting in fields.items():
        at = (*key, name)
        if name not in written:
            if setting.default is msgspec.NODEFAULT:
                problems.append(Wrong(at, None, _wanted(setting.kind)))
        elif setting.section:
            left_out = setting.optional and written[name] is None
            given[setting.field] = (
                None
                if left_out
                else build(setting.section, written[name], at, problems, setting.default)
            )
        else:
            try:
                given[setting.field] = _setting(setting, written[name], at)
            except (Wrong, Unknown, Refused) as problem:
                problems.append(problem)
    if len(problems) > before:
        return None
    try:
        unset = msgspec.structs.asdict(default) if isinstance(default, section) else {}
        return section(**{**unset, **given})
    except InvalidOption as error:
        problems.append(Refused(key, str(error)))
        return None


def _setting(setting: Setting, value: Value, key: Key) -> Any:
    if value is None and setting.optional:
        return None
    found = _convert(setting.kind, value, key, setting.marks)
    for mark in setting.marks:
        if isinstance(mark, msgspec.Meta):
            _check(mark, found, value, key, is_duration(setting.kind, setting.marks))
    return found


def _convert(kind: Any, value: Value, key: Key, marks: Sequence[Any] = ()) -> Any:
    kind, more = unwrapped(kind)
    if is_struct(kind):
        problems: list[Problem] = []
        found = build(kind, value, key, problems)
        for problem in problems:
            raise problem
        return found
    if is_duration(kind, (*marks, *more)):
        return _duration(value, key)
    origin = get_origin(kind)
    if origin in (list, tuple, Sequence):
        items = _collection(value, key, _wanted(kind))
        return tuple(
            _setting(Setting("", "", *_bare(get_args(kind)[0])), item, (*key, str(n)))
            for n, item in enumerate(items)
        )
    if origin in (dict, Mapping):
        pairs = _mapping(value, key, _wanted(kind))
        inner = get_args(kind)[1]
        return {name: _convert(inner, item, (*key, name)) for name, item in pairs.items()}
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        return _choice(kind, value, key)
    if origin is not None:
        return _first_of(kind, value, key)
    if not isinstance(value, str):
        raise Wrong(key, value, _wanted(kind))
    return _scalar(kind, value, key)


def _bare(kind: Any) -> tuple[Any, None, bool, tuple[Any, ...]]:
    bare, marks = unwrapped(kind)
    return bare, None, False, marks


def _scalar(kind: Any, text: str, key: Key) -> Any:
    if kind is bool:
        word = text.lower()
        if word not in (*_TRUE, *_FALSE):
            raise Wrong(key, text, _wanted(kind))
        return word in _TRUE
    try:
        found = kind(text)
    except ValueError:
        raise Wrong(key, text, _wanted(kind)) from None
    if isinstance(found, float) and not math.isfinite(found):
        raise Wrong(key, text, "a finite number")
    return found


def _duration(value: Value, key: Key) -> float:
    try:
        return parse_duration(value if isinstance(value, str) else "")
    except InvalidOption:
        raise Wrong(key, value, _DURATION) from None


def _choice(kind: Any, value: Value, key: Key) -> Any:
    choices = {str(each): each for each in get_args(kind)} or {
        str(each.value): each for each in cast("type[Enum]", kind)
    }
    if not isinstance(value, str) or value not in choices:
        raise Wrong(key, value, _either([repr(each) for each in choices]))
    return choices[value]


def _first_of(kind: Any, value: Value, key: Key) -> Any:
    wanted: list[str] = []
    # A number before true and false, which 1 and 0 could mean as well.
    for each in sorted(get_args(kind), key=lambda each: each is bool):
        try:
            return _convert(each, value, key)
        except Wrong as wrong:
            wanted.append(wrong.wanted)
    raise Wrong(key, value, _either(wanted))


def _collection(value: Value, key: Key, wanted: str) -> list[Value]:
    # An environment variable has no other way to say `a, b` than this.
    if isinstance(value, str):
        text = value.strip()
        bare = not text.startswith("[")
        try:
            value = read_text(f"[{text}]" if bare else text)
        except InvalidSetting:
            # What YAML cannot read, such as `**/*.pdf, *.txt`, is still a list to a person.
            value = [part.strip() for part in text.split(",")] if bare else value
    if not isinstance(value, list):
        raise Wrong(key, value, wanted)
    return value


def _mapping(value: Value, key: Key, wanted: str) -> dict[str, Value]:
    if isinstance(value, str):
        try:
            value = read_text(value)
        except InvalidSetting:
            raise Wrong(key, value, wanted) from None
    if not isinstance(value, dict):
        raise Wrong(key, value, wanted)
    return value


def _check(bounds: msgspec.Meta, found: Any, value: Value, key: Key, is_duration: bool) -> None:
    if bounds.ge is not None and found < bounds.ge:
        least = f"a duration of at least {format_duration(bounds.ge)}" if is_duration else ""
        raise Wrong(key, value, least or f"at least {bounds.ge}")
    if bounds.gt is not None and found <= bounds.gt:
        raise Wrong(key, value, f"more than {bounds.gt}")
    if bounds.le is not None and found > bounds.le:
        raise Wrong(key, value, f"at most {bounds.le}")
    if bounds.min_length is not None and len(found) < bounds.min_length:
        raise Wrong(key, value, f"at least {bounds.min_length} of them")


def _wanted(kind: Any) -> str:
    words = {bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}
    if kind in words:
        return words[kind]
    if is_duration(kind):
        return _DURATION
    if get_origin(kind) in (dict, Mapping):
        return "keys with values"
    if get_origin(kind) in (list, tuple, Sequence):
        return "a list"
    if get_origin(kind) is Literal:
        return _either([repr(each) for each in get_args(kind)])
    return "text"


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
