"""Keyspaces: the keys of a product, declared as a table.

A line of a keyspace is the key's name, its type and its documentation; the reference page and the
leak test read the same lines. `<part>` in a root or suffix stands for what an instance fills in.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, overload

from waystation.core.errors import InvalidOption

PREFIX = "waystation"
LONGEST_NAME = 512

_PART = re.compile(r"<(\w+)>")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f]")


class Row(NamedTuple):
    """One line of a keyspace's table."""

    name: str
    pattern: str
    type: str
    ttl: str | None
    meaning: str


class Key:
    """One key of a keyspace; on an instance it is the key's text, built once."""

    type: ClassVar[str]

    def __init__(self, suffix: str, meaning: str, *, ttl: str | None = None) -> None:
        self.suffix = suffix
        self.meaning = meaning
        self.ttl = ttl
        """How long it lives, in words; a key that says so must never be seen without a TTL."""
        self.name = ""

    def __set_name__(self, owner: "type[Keyspace]", name: str) -> None:
        if hasattr(Keyspace, name):
            raise TypeError(
                f"{owner.__name__}.{name} would hide what every keyspace has; rename it"
            )
        self.name = name

    @overload
    def __get__(self, keys: None, owner: "type[Keyspace]") -> Self: ...
    @overload
    def __get__(self, keys: "Keyspace", owner: "type[Keyspace]") -> str: ...
    def __get__(self, keys: "Keyspace | None", owner: "type[Keyspace]") -> Self | str:
        if keys is None:
            return self
        text = _template(owner.root, self.suffix).format_map(keys.parts)
        # Without `__set__` the instance's own attribute wins from now on: no call, no building.
        keys.__dict__[self.name] = text
        return text

    def pattern_in(self, owner: "type[Keyspace]") -> str:
        """The key with its parts still open."""
        return _pattern(owner.root, self.suffix)


class String(Key):
    """A key that holds one value."""

    type = "string"


class List(Key):
    """A key that holds a list."""

    type = "list"


class Set(Key):
    """A key that holds a set."""

    type = "set"


class SortedSet(Key):
    """A key that holds members by score."""

    type = "zset"


class Hash(Key):
    """A key that holds fields."""

    type = "hash"


class Stream(Key):
    """A key that holds a log of entries."""

    type = "stream"


class Keyspace:
    """The keys that belong together; a subclass declares them, an instance names them.

    class QueueKeys(Keyspace, root="<prefix>:<name>"):
        wait = List("wait", "ids ready to run; the oldest at the right end")
    """

    root: ClassVar[str] = "<prefix>:<name>"
    script_args: ClassVar[tuple[str, ...]] = ()
    """What scripts that build keys take from here, as their first arguments of these names."""

    def __init_subclass__(cls, *, root: str | None = None) -> None:
        super().__init_subclass__()
        if root is not None:
            cls.root = root

    def __init__(self, name: str, *, prefix: str = PREFIX, **parts: str) -> None:
        self.name = _checked("name", name)
        self.prefix = _checked("prefix", prefix)
        self.parts: dict[str, str] = {"name": name, "prefix": prefix, **parts}

    def within(self, kind: "type[K]", **parts: str) -> "K":
        """The keys of one thing inside this keyspace; its parts are taken as they are."""
        inner = kind.__new__(kind)
        if issubclass(kind, type(self)) and parts.keys().isdisjoint(self.parts):
            # What is already built does not mention the new parts, so it stays right.
            inner.__dict__.update(self.__dict__)
        inner.name, inner.prefix = self.name, self.prefix
        inner.parts = {**self.parts, **parts}
        return inner

    @property
    def tag(self) -> str | None:
        """What a cluster hashes; None when the keys may lie on different nodes."""
        found = re.search(r"\{([^}]+)\}", f"{self.prefix}:{self.name}")
        return found.group(1) if found else None

    @property
    def start(self) -> str:
        """What all keys begin with, and what can be made a hash tag."""
        return self.prefix if "<prefix>" in self.root else self.name

    def known(self) -> Iterator[str]:
        """Every key that is known without its parts being given."""
        for key in self.lines():
            if set(_PART.findall(key.pattern_in(type(self)))) <= self.parts.keys():
                yield getattr(self, key.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_template(self.root, '').format_map(self.parts)!r})"

    @classmethod
    def first_args(cls, args: Iterable[str]) -> tuple[str, ...]:
        """Those of a script's arguments that its keys give, so that no caller has to."""
        return tuple(takewhile(cls.script_args.__contains__, args))

    @classmethod
    def lines(cls) -> Iterator[Key]:
        """Every key declared here or above, in order."""
        seen: dict[str, Key] = {}
        for owner in reversed(cls.__mro__):
            seen |= {name: key for name, key in vars(owner).items() if isinstance(key, Key)}
        yield from seen.values()

    @classmethod
    def table(cls) -> list[Row]:
        """The lines of the reference page."""
        return [
            Row(key.name, key.pattern_in(cls), key.type, key.ttl, key.meaning)
            for key in cls.lines()
        ]

    @classmethod
    def matches(cls, key: str | bytes) -> Row | None:
        """The line that declares this key; the most literal one when several could."""
        text = key.decode(errors="replace") if isinstance(key, bytes) else key
        return next((row for row, keys in _expressions(cls) if keys.fullmatch(text)), None)

    @classmethod
    def declared(cls) -> "Iterator[type[Keyspace]]":
        """Every keyspace that has been declared so far."""
        for kind in cls.__subclasses__():
            yield kind
            yield from kind.declared()


K = TypeVar("K", bound=Keyspace)


def _pattern(root: str, suffix: str) -> str:
    return ":".join(part for part in (root, suffix) if part)


@cache
def _template(root: str, suffix: str) -> str:
    """A pattern as `format_map` takes it: keys are built for every visitor and every job."""
    literal = _pattern(root, suffix).replace("{", "{{").replace("}", "}}")
    return _PART.sub(r"{\1}", literal)


@cache
def _expressions(space: type[Keyspace]) -> list[tuple[Row, re.Pattern[str]]]:
    """The lines of a keyspace with what their keys look like, the most literal first."""
    rows = sorted(space.table(), key=lambda row: len(_PART.sub("", row.pattern)), reverse=True)
    return [(row, _expression(row.pattern)) for row in rows]


def _expression(pattern: str) -> re.Pattern[str]:
    pieces: list[str] = _PART.split(pattern)
    return re.compile(
        "".join(
            re.escape(piece) if index % 2 == 0 else ("[^:]+" if piece == "name" else ".+")
            for index, piece in enumerate(pieces)
        ),
        re.DOTALL,
    )


def is_name(text: str) -> bool:
    """Whether something can be called so."""
    with suppress(InvalidOption):
        return bool(_checked("name", text))
    return False


def _checked(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidOption(f"a {what} must be text, got {value!r}")
    if not value or len(value) > LONGEST_NAME:
        raise InvalidOption(f"a {what} must have 1 to {LONGEST_NAME} characters, got {len(value)}")
    if _UNSEEN.search(value):
        raise InvalidOption(f"a {what} must not hold control characters, got {value!r}")
    if what == "prefix" and " " in value:
        # A queue may be called what it likes, but prefixes also stand in connections' names.
        raise InvalidOption(f"a prefix must not hold spaces, got {value!r}")
    if what == "name" and ":" in value:
        raise InvalidOption(f"a name must not hold a colon, which separates keys, got {value!r}")
    if value in (".", ".."):
        raise InvalidOption(f"a {what} must not be {value!r}, which no address can end with")
    if ("{" in value or "}" in value) and not re.fullmatch(r"[^{}]*\{[^{}]+\}[^{}]*", value):
        raise InvalidOption(f"braces in a {what} must enclose one hash tag, got {value!r}")
    return value
