"""Sources of settings: a YAML file and the environment.

Scalars stay the text they were written as and the model decides what they mean, so `no` is a word
where a word is wanted and false where a yes or no is, and both sources follow the same rules.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

import msgspec
import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from waystation.core.errors import InvalidSetting

PREFIX = "WAYSTATION_"
NESTING = "__"

Key: TypeAlias = tuple[str, ...]
Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"

_DEEPEST = 32
_STANDARD_TAG = "tag:yaml.org,2002:"
_EMPTY = _STANDARD_TAG + "null"


class Entry(msgspec.Struct, frozen=True):
    """One value and the place where it was written; a mapping is an empty one before its keys."""

    key: Key
    value: Value
    origin: str


def read_file(file: Path) -> list[Entry] | None:
    """Read what a YAML file sets, in its order; None when there is no such file."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidSetting(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidSetting(f"{file} wants UTF-8 text, got other bytes") from None
    page = _Page(str(file))
    top = page.compose(text)
    if isinstance(top, MappingNode):
        return list(page.entries(top, ()))
    if top is None or page.plain(top) is None:
        return []
    raise InvalidSetting(f"{page.place(top)} wants sections such as `store:`, got something else")


def read_environment(environ: Mapping[str, str]) -> list[Entry]:
    """Read what `WAYSTATION_SECTION__KEY` variables set; an empty one sets nothing."""
    return [
        Entry(key_of(name), text, printable(name))
        for name, text in sorted(environ.items())
        if name.startswith(PREFIX) and NESTING in name.removeprefix(PREFIX) and text
    ]


def read_text(text: str) -> Value:
    """Read one value written as YAML."""
    page = _Page("the value")
    node = page.compose(text)
    return None if node is None else page.plain(node)


def printable(text: str) -> str:
    """Keep a name on the line it is printed on."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def variable_of(key: Key) -> str:
    """The environment variable that sets this key."""
    return PREFIX + NESTING.join(key).upper()


def key_of(variable: str) -> Key:
    """The key that an environment variable sets."""
    return tuple(variable.removeprefix(PREFIX).lower().split(NESTING))


class _Page:
    """One YAML text with the line of each value."""

    def __init__(self, name: str) -> None:
        self._name = printable(name)
        self._read: set[int] = set()

    def compose(self, text: str) -> Node | None:
        try:
            return cast("Node | None", yaml.compose(text, Loader=yaml.CSafeLoader))
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise InvalidSetting(f"{self._name}:{line} is not YAML: {error.problem}") from None
        except yaml.YAMLError:
            raise InvalidSetting(f"{self._name} holds characters YAML does not allow") from None

    def entries(self, mapping: MappingNode, above: Key) -> Iterator[Entry]:
        for name_node, node in self._pairs(mapping, len(above)):
            key, place = (*above, str(name_node.value)), self.place(name_node)
            if isinstance(node, MappingNode):
                yield Entry(key, {}, place)
                yield from self.entries(node, key)
            else:
                yield Entry(key, self.plain(node, len(key)), place)

    def plain(self, node: Node, depth: int = 0) -> Value:
        if isinstance(node, MappingNode):
            pairs = self._pairs(node, depth)
            return {str(name.value): self.plain(item, depth + 1) for name, item in pairs}
        self._check(node, depth)
        if isinstance(node, SequenceNode):
            return [self.plain(item, depth + 1) for item in node.value]
        return None if node.tag == _EMPTY else str(node.value)

    def place(self, node: Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"

    def _pairs(self, mapping: MappingNode, depth: int) -> Iterator[tuple[ScalarNode, Node]]:
        self._check(mapping, depth)
        first: dict[str, ScalarNode] = {}
        for name, node in mapping.value:
            if not isinstance(name, ScalarNode):
                raise InvalidSetting(f"{self.place(name)} wants a name as key, got a collection")
            before = first.setdefault(str(name.value), name)
            if before is not name:
                raise InvalidSetting(
                    f"{self.place(name)} sets {name.value!r} a second time; "
                    f"it was set at {self.place(before)}"
                )
            yield name, node

    def _check(self, node: Node, depth: int) -> None:
        if id(node) in self._read:
            raise InvalidSetting(f"{self.place(node)} is used by an alias; write the value out")
        if not node.tag.startswith(_STANDARD_TAG):
            raise InvalidSetting(
                f"{self.place(node)} wants a plain value, got the tag {node.tag!r}"
            )
        if depth > _DEEPEST:
            raise InvalidSetting(f"{self.place(node)} is nested more than {_DEEPEST} levels deep")
        self._read.add(id(node))
