"""Declared fields: values at paths in a job's data, by which jobs are found."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from waystation.pipeline.payloads.paths import ANYWHERE, EVERY, JsonPath

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
