"""JSON of any depth: read and written without recursion, for what the fast codec cannot take."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, cast

MOST_LEVELS = 100_000
"""Deeper nesting is somebody's mistake, or an attack."""

_BLANK = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(
    r"(?P<word>true|false|null)|-?(?:0|[1-9]\d*)(?P<part>\.\d+)?(?P<power>[eE][-+]?\d+)?", re.ASCII
)
_WORDS = {"true": True, "false": False, "null": None}
_CLOSED_BY = {"[": "]", "{": "}"}
_string = json.JSONDecoder().raw_decode


class _Open(NamedTuple):
    """A container that is being read, and under which key its next member goes."""

    members: Any
    closed_by: str
    key: str


def read(text: str) -> Any:
    """Read JSON as Node does, lone surrogates and large numbers included; else ValueError."""
    path: list[_Open] = []
    at = 0
    while True:
        at = _skip(text, at)
        if closed_by := _CLOSED_BY.get(text[at : at + 1]):
            value: Any = [] if closed_by == "]" else {}
            at = _skip(text, at + 1)
            if text[at : at + 1] != closed_by:
                if len(path) == MOST_LEVELS:
                    raise ValueError(f"more than {MOST_LEVELS} levels")
                key, at = _key(text, at, closed_by)
                path.append(_Open(value, closed_by, key))
                continue
            at += 1
        else:
            value, at = _scalar(text, at)
        while path:
            members, closed_by, key = path.pop()
            if closed_by == "}":
                members[key] = value
            else:
                members.append(value)
            at = _skip(text, at)
            mark, at = text[at : at + 1], at + 1
            if mark == ",":
                key, at = _key(text, at, closed_by)
                path.append(_Open(members, closed_by, key))
                break
            if mark != closed_by:
                raise ValueError(f"expected , or {closed_by} at {at - 1}")
            value = members
        else:
            if _skip(text, at) < len(text):
                raise ValueError(f"unexpected text at {at}")
            return value


def write(value: Any, scalar: Callable[[Any], str]) -> str:
    """Write dicts, lists and tuples of any depth; `scalar` writes what is in them."""
    parts: list[str] = []
    # What is still to be written: a text as it is, a container that ends, or a value.
    todo: list[tuple[str, Any]] = [("value", value)]
    path: set[int] = set()
    while todo:
        kind, item = todo.pop()
        if kind == "text":
            parts.append(item)
        elif kind == "end":
            path.discard(id(item))
            parts.append("}" if isinstance(item, dict) else "]")
        elif isinstance(item, dict | list | tuple):
            if id(cast(Any, item)) in path or len(path) >= MOST_LEVELS:
                raise ValueError("the value is nested too deeply, or contains itself")
            path.add(id(cast(Any, item)))
            todo += _opened(cast(Any, item), scalar)
        else:
            parts.append(_quoted(item) if isinstance(item, str) else scalar(item))
    return "".join(parts)


def _opened(item: Any, scalar: Callable[[Any], str]) -> list[tuple[str, Any]]:
    """What there is to write of a container, the last first."""
    members: list[tuple[str, Any]] = []
    if isinstance(item, dict):
        for key, value in cast(dict[Any, Any], item).items():
            name = _quoted(key) if isinstance(key, str) else scalar({key: 0})[1:-3]
            members += [("text", f"{',' if members else ''}{name}:"), ("value", value)]
    else:
        for value in item:
            members += [("text", ","), ("value", value)] if members else [("value", value)]
    return [("end", item), *reversed(members), ("text", "{" if isinstance(item, dict) else "[")]


def _scalar(text: str, at: int) -> tuple[Any, int]:
    """A scalar and where it ends."""
    if text[at : at + 1] == '"':
        return _string(text, at)
    found = _SCALAR.match(text, at)
    if found is None:
        raise ValueError(f"expected a value at {at}")
    if found["word"]:
        return _WORDS[found[0]], found.end()
    return (float if found["part"] or found["power"] else whole)(found[0]), found.end()


def _key(text: str, at: int, closed_by: str) -> tuple[str, int]:
    """The key of an object's next member, and where its value begins; a list has none."""
    if closed_by == "]":
        return "", at
    at = _skip(text, at)
    if text[at : at + 1] != '"':
        raise ValueError(f"expected a key at {at}")
    key, at = _string(text, at)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"expected : at {at}")
    return key, at + 1


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def whole(digits: str) -> int | float:
    """A whole number; with more digits than Python reads, what Node makes of it."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)
