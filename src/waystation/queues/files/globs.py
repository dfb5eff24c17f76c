"""Patterns for paths: `*` within a name, `**` over any number of folders, `{a,b}` for either."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from waystation.core.errors import InvalidOption

MOST_ALTERNATIVES = 200
"""Patterns that one with braces may stand for."""

_ANY_DEPTH = None
"""What `**` compiles to."""


class Globs:
    """Several patterns; a path, without `/` at its start, is in them when it matches one."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._tests = [_test(each) for pattern in patterns for each in _alternatives(pattern)]

    def __contains__(self, path: str) -> bool:
        return any(test(path) for test in self._tests)

    def __bool__(self) -> bool:
        return bool(self._tests)


def _test(pattern: str) -> Callable[[str], bool]:
    if not pattern:
        raise InvalidOption("a pattern must not be empty")
    parts = pattern.strip("/").split("/")
    if parts in (["**"], ["**", "*"]):
        return lambda path: True
    if len(parts) == 2 and parts[0] == "**":
        name = _name_test(parts[1])
        return lambda path: name(path.rpartition("/")[2]) is not None
    tests = [_ANY_DEPTH if part == "**" else _name_test(part) for part in parts]
    return lambda path: _fits(tests, path.split("/"))


def _name_test(part: str) -> Callable[[str], "re.Match[str] | None"]:
    # The standard library's expressions cannot be made to backtrack without end.
    return re.compile(fnmatch.translate(part.replace("**", "*"))).match


def _fits(tests: Sequence[Callable[[str], object] | None], names: Sequence[str]) -> bool:
    """Hold each name against the patterns it may belong to: time grows with both, never faster."""
    reached = {0}
    for name in names:
        reached = _past_any_depth(tests, reached)
        after: set[int] = set()
        for place in reached:
            if place == len(tests):
                continue
            test = tests[place]
            if test is None:
                after.add(place)
            elif test(name):
                after.add(place + 1)
        reached = after
    return len(tests) in _past_any_depth(tests, reached)


def _past_any_depth(tests: Sequence[object | None], reached: set[int]) -> set[int]:
    whole = set(reached)
    for place in reached:
        while place < len(tests) and tests[place] is None:
            place += 1
            whole.add(place)
    return whole


def _alternatives(pattern: str) -> list[str]:
    found = list(islice(_expanded(pattern), MOST_ALTERNATIVES + 1))
    if len(found) > MOST_ALTERNATIVES:
        raise InvalidOption(
            f"a pattern may stand for {MOST_ALTERNATIVES} others at most, got {pattern!r}"
        )
    return found


def _expanded(pattern: str) -> Iterator[str]:
    inner = re.search(r"\{([^{}]*)\}", pattern)
    if inner is None:
        yield pattern
        return
    for choice in inner.group(1).split(","):
        yield from _expanded(pattern[: inner.start()] + choice + pattern[inner.end() :])
