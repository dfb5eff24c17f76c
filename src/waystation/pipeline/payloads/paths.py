"""Paths in JSON values: `$.a.b`, `$.items[0]`, `$.items[*].email`, `$..password`."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self, TypeAlias, cast

from waystation.core.errors import InvalidOption

EVERY = "*"
ANYWHERE = ".."
_STEP = re.compile(r"\.\.|\.?\[(\*|\d+)\]|\.?\[\"([^\"]+)\"\]|\.([^.\[\]]+)|([^.\[\]$]+)")
GONE = object()
"""What a change returns to leave a value out."""

Place: TypeAlias = tuple[str | int, ...]
"""The names and numbers that lead to one value."""
Change: TypeAlias = Callable[[Place, Any], Any]


class JsonPath(NamedTuple):
    """A path, step by step: names, numbers, `*` for all, `..` for any depth."""

    text: str
    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a path; refuses one that cannot be followed."""
        rest = text.removeprefix("$")
        steps: list[str | int] = []
        while rest:
            found = _STEP.match(rest)
            if found is None or (found[4] and not _may_be_bare(text, steps)):
                raise InvalidOption(f"wanted a path such as $.order.id, got {text!r}")
            rest = rest[found.end() :]
            number, quoted, dotted, bare = found.groups()
            if found[0] == "..":
                steps.append(ANYWHERE)
            elif number is not None:
                steps.append(EVERY if number == "*" else int(number))
            else:
                steps.append(quoted or dotted or bare)
        if not steps or steps[-1] == ANYWHERE:
            raise InvalidOption(f"wanted a path such as $.order.id, got {text!r}")
        return cls(text, tuple(steps))

    def values(self, document: Any) -> Iterator[Any]:
        """The values at this path."""
        for _, value in self.found(document):
            yield value

    def found(self, document: Any) -> Iterator[tuple[Place, Any]]:
        """The places and values at this path."""
        yield from _found(document, self.steps, ())

    def replaced(self, document: Any, change: Change) -> Any:
        """The document with the values at this path changed; `GONE` leaves one out."""
        return _replaced(document, self.steps, (), change)


def _may_be_bare(text: str, steps: list[str | int]) -> bool:
    """Whether a name may stand here without a dot: at the start, or after `..`."""
    return steps[-1] == ANYWHERE if steps else not text.startswith("$")


def rebuilt(value: Any, place: Place, change: Change) -> Any:
    """An object or array with all its values changed; anything else as it is."""
    match value:
        case dict():
            named = cast("dict[str, Any]", value)
            changed = {name: change((*place, name), child) for name, child in named.items()}
            return {name: child for name, child in changed.items() if child is not GONE}
        case list():
            listed = cast("list[Any]", value)
            # A value that is left out of a list leaves its place, so that others keep theirs.
            made = [change((*place, number), child) for number, child in enumerate(listed)]
            return [None if child is GONE else child for child in made]
        case _:
            return value


def _found(value: Any, steps: tuple[str | int, ...], place: Place) -> Iterator[tuple[Place, Any]]:
    if not steps:
        yield place, value
        return
    step, rest = steps[0], steps[1:]
    if step == ANYWHERE:
        yield from _found(value, rest, place)
    for name, child in _children(value):
        if step == ANYWHERE:
            yield from _found(child, steps, (*place, name))
        elif step in (EVERY, name):
            yield from _found(child, rest, (*place, name))


def _replaced(value: Any, steps: tuple[str | int, ...], place: Place, change: Change) -> Any:
    if not steps:
        return change(place, value)
    step, rest = steps[0], steps[1:]

    def below(here: Place, child: Any) -> Any:
        if step == ANYWHERE:
            return _replaced(child, steps, here, change)
        return _replaced(child, rest, here, change) if step in (EVERY, here[-1]) else child

    if step == ANYWHERE:
        value = _replaced(value, rest, place, change)
    return rebuilt(value, place, below)


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    match value:
        case dict():
            yield from cast("dict[str, Any]", value).items()
        case list():
            yield from enumerate(cast("list[Any]", value))
        case _:
            return
