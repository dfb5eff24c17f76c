"""YAML texts with the line of each value."""

from collections.abc import Iterator
from typing import cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from waystation.core.errors import InvalidSetting
from waystation.core.settings.sources import Entry, Key, Value

_DEEPEST = 32
_STANDARD_TAG = "tag:yaml.org,2002:"
_EMPTY = _STANDARD_TAG + "null"


class Page:
    """One YAML text with the line of each value."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._read: set[int] = set()

    def sections(self, text: str) -> Iterator[Entry]:
        """Every value of a settings file: its key, itself, and its place."""
        top = self._compose(text)
        if isinstance(top, MappingNode):
            yield from self._entries(top, ())
        elif top is not None and self._plain(top) is not None:
            got = "a list" if isinstance(top, SequenceNode) else "a single value"
            raise InvalidSetting(
                f"{self._place(top)} wants sections, a name with a colon and its keys below it, "
                f"got {got}"
            )

    def value(self, text: str) -> Value:
        """One value."""
        node = self._compose(text)
        return None if node is None else self._plain(node)

    def _compose(self, text: str) -> Node | None:
        try:
            return cast("Node | None", yaml.compose(text, Loader=yaml.CSafeLoader))
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            problem = _in_words(text.splitlines(), line) or error.problem
            raise InvalidSetting(f"{self._name}:{line} is not YAML: {problem}") from None
        except yaml.YAMLError:
            raise InvalidSetting(f"{self._name} holds characters YAML does not allow") from None

    def _entries(self, mapping: MappingNode, above: Key) -> Iterator[Entry]:
        for name_node, node in self._pairs(mapping, len(above)):
            key, place = (*above, str(name_node.value)), self._place(name_node)
            if isinstance(node, MappingNode):
                yield Entry(key, {}, place)
                yield from self._entries(node, key)
            else:
                yield Entry(key, self._plain(node, len(key)), place)

    def _plain(self, node: Node, depth: int = 0) -> Value:
        if isinstance(node, MappingNode):
            pairs = self._pairs(node, depth)
            return {str(name.value): self._plain(item, depth + 1) for name, item in pairs}
        self._check(node, depth)
        if isinstance(node, SequenceNode):
            return [self._plain(item, depth + 1) for item in node.value]
        return None if node.tag == _EMPTY else str(node.value)

    def _place(self, node: Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"

    def _pairs(self, mapping: MappingNode, depth: int) -> Iterator[tuple[ScalarNode, Node]]:
        self._check(mapping, depth)
        first: dict[str, ScalarNode] = {}
        for name, node in mapping.value:
            if not isinstance(name, ScalarNode):
                raise InvalidSetting(f"{self._place(name)} wants a name as key, got a collection")
            before = first.setdefault(str(name.value), name)
            if before is not name:
                raise InvalidSetting(
                    f"{self._place(name)} sets {name.value!r} a second time; "
                    f"it was set at {self._place(before)}"
                )
            yield name, node

    def _check(self, node: Node, depth: int) -> None:
        if id(node) in self._read:
            raise InvalidSetting(
                f"{self._place(node)} is used a second time by an alias (*name); write the value "
                "out in both places"
            )
        if not node.tag.startswith(_STANDARD_TAG):
            raise InvalidSetting(
                f"{self._place(node)} wants a plain value, got the tag {node.tag!r}"
            )
        if depth > _DEEPEST:
            raise InvalidSetting(f"{self._place(node)} is nested more than {_DEEPEST} levels deep")
        self._read.add(id(node))


def _in_words(lines: list[str], line: int) -> str:
    """What is wrong with a line, where the parser's own words help nobody; empty for the rest."""
    if line > len(lines):
        return "the text ends before a bracket or a quotation mark is closed"
    begins = lines[line - 1][: -len(lines[line - 1].lstrip())]
    return "lines are indented with spaces, not with tabs" if "\t" in begins else ""
