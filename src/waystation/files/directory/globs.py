"""Patterns for paths: `*` within a name, `**` over any number of folders, `{a,b}` for either.

The ending of a file's name is compared without case: a scanner's `A.PDF` is a `*.pdf`.

Not wcmatch: it compares either everything without case or nothing, and takes 17 to 38 µs a path
for patterns like `**/*` and `**/*.{pdf,docx}`, where this takes 0.2 to 2 µs.
"""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from waystation.core.errors import InvalidOption
from waystation.files.job import Job

MOST_ALTERNATIVES = 200
"""Patterns that one pattern with braces may expand to."""

_ANY_DEPTH = None
"""The compiled form of `**`."""


class Globs:
    """Several patterns; `path in globs` when the path, without `/` at its start, matches one."""

    def __init__(self, patterns: Sequence[str]) -> None:
        parts = [_parts(each) for pattern in patterns for each in _alternatives(pattern)]
        names = [each[1] for each in parts if len(each) == 2 and each[0] == "**"]
        # The most common patterns concern the name alone, and are matched by one expression.
        self._is_name = _any_name(names) if names else None
        self._tests = [_test(each) for each in parts if len(each) != 2 or each[0] != "**"]
        self._is_all = ["**"] in parts or ["**", "*"] in parts

    def __contains__(self, path: str) -> bool:
        if self._is_all:
            return True
        if self._is_name and self._is_name(path.rpartition("/")[2]):
            return True
        return any(test(path) for test in self._tests) if self._tests else False

    def __bool__(self) -> bool:
        return bool(self._is_name or self._tests)


def path_in(job: Job) -> str:
    """A job's path in the form that patterns match."""
    return job.filepath.lstrip("/")


def _parts(pattern: str) -> list[str]:
    if not pattern:
        raise InvalidOption("a pattern must not be empty")
    parts = pattern.strip("/").split("/")
    parts[-1] = _ending_in_any_case(parts[-1])
    return parts


def _test(parts: Sequence[str]) -> Callable[[str], bool]:
    tests = [_ANY_DEPTH if part == "**" else _any_name([part]) for part in parts]
    return lambda path: _fits(tests, path.split("/"))


def _any_name(patterns: Sequence[str]) -> Callable[[str], "re.Match[str] | None"]:
    # The expressions of fnmatch do not backtrack without end.
    return re.compile(
        "|".join(fnmatch.translate(each.replace("**", "*")) for each in patterns)
    ).match


def _ending_in_any_case(name: str) -> str:
    """The pattern with each letter of the ending as `[aA]`."""
    after_wildcard = name.rpartition("*")[2]
    is_ending = after_wildcard.startswith(".") and after_wildcard != name
    ending = after_wildcard if is_ending else os.path.splitext(name)[1]
    if set(ending) & set("*?[]"):
        return name
    return name.removesuffix(ending) + "".join(_in_any_case(letter) for letter in ending)


def _in_any_case(letter: str) -> str:
    lower, upper = letter.lower(), letter.upper()
    return f"[{lower}{upper}]" if lower != upper and len(lower + upper) == 2 else letter


def _fits(tests: Sequence[Callable[[str], object] | None], names: Sequence[str]) -> bool:
    """Match the names of a path in time that grows with names times patterns, never faster."""
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
            f"a pattern may expand to {MOST_ALTERNATIVES} others at most, got {pattern!r}"
        )
    return found


def _expanded(pattern: str) -> Iterator[str]:
    inner = re.search(r"\{([^{}]*)\}", pattern)
    if inner is None:
        yield pattern
        return
    for choice in inner.group(1).split(","):
        yield from _expanded(pattern[: inner.start()] + choice + pattern[inner.end() :])
