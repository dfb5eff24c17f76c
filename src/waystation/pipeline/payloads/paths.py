"""Paths in JSON values: `$.a.b`, `$.items[0]`, `$.items[*].email`, `$..password`.

The values at declared paths in a job's data are the fields by which jobs are found.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias, cast

import msgspec

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


LONGEST_VALUE = 200
"""Characters of a declared field's value."""

Document: TypeAlias = str | bytes | None
Read: TypeAlias = Callable[[str | bytes], Any]
_Tree: TypeAlias = dict[str, Any]


class DeclaredFields:
    """Finds the values of declared fields in documents."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {name: JsonPath.parse(path) for name, path in paths.items()}
        self._known = _known_places(self._paths)

    def __bool__(self) -> bool:
        return bool(self._paths)

    def of(self, document: Document) -> list[tuple[str, str]]:
        """The names and values that a JSON document has."""
        if not document or not self._paths:
            return []
        try:
            found = self._values(document)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            return []
        return [(name, _shown(value)[:LONGEST_VALUE]) for name, value in found if value is not None]

    def _values(self, document: str | bytes) -> list[tuple[str, Any]]:
        if self._known is not None:
            try:
                return self._known(document)
            except msgspec.ValidationError:
                # Somewhere on a path is something else than an object.
                pass
        whole = msgspec.json.decode(document)
        return [
            (name, value)
            for name, path in self._paths.items()
            for value in list(path.values(whole))[:1]
        ]


def _known_places(paths: Mapping[str, JsonPath]) -> "Callable[[str | bytes], Any] | None":
    """A reader that decodes nothing besides the values; None when a path is not plain names."""
    tree: _Tree = {}
    for name, path in paths.items():
        if not _has_place(tree, path.steps, name):
            return None
    read = msgspec.json.Decoder(_struct_of(tree)).decode
    places = [(name, _attributes(tree, path.steps)) for name, path in paths.items()]

    def values(document: str | bytes) -> list[tuple[str, Any]]:
        whole = read(document)
        return [(name, _at(whole, attributes)) for name, attributes in places]

    return values


def _has_place(tree: _Tree, steps: Sequence[str | int], name: str) -> bool:
    """Note a field in a tree of names; False when it has no place of its own there."""
    here: Any = tree
    for step in steps[:-1]:
        here = cast(_Tree, here).setdefault(str(step), {}) if isinstance(here, dict) else None
    if not isinstance(here, dict) or steps[-1] in here or not all(map(_is_name, steps)):
        return False
    here[steps[-1]] = name
    return True


def _is_name(step: str | int) -> bool:
    return isinstance(step, str) and step not in (EVERY, ANYWHERE)


def _struct_of(tree: _Tree) -> Any:
    """A type with the names of a tree, in their order; others are skipped when it is decoded."""
    named = {f"at_{number}": name for number, name in enumerate(tree)}
    fields: list[tuple[str, Any, Any]] = [
        (attribute, _struct_of(tree[name]) if isinstance(tree[name], dict) else Any, None)
        for attribute, name in named.items()
    ]
    return msgspec.defstruct("Declared", fields, rename=named)


def _attributes(tree: _Tree, steps: Sequence[str | int]) -> list[str]:
    found: list[str] = []
    here: Any = tree
    for step in steps:
        found.append(f"at_{list(here).index(step)}")
        here = here[step]
    return found


def _at(value: Any, attributes: Sequence[str]) -> Any:
    for each in attributes:
        value = getattr(value, each, None)
    return value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
