"""Rules of payloads: their settings, and what is applied before anything is written.

A hash is keyed, so that values of few possibilities cannot be found by trying; equal values have
equal hashes, so that jobs can still be found and counted by them. An encrypted value is AES-GCM
with the name of its key: whoever holds the key ring can read it.

What rules have made is known by its place, never by its text. Where a rule encrypts, a user's text
that looks like an encrypted value is escaped.
"""

import base64
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import msgspec

from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.key_ring import NAME, KeyRing
from waystation.core.options import check_fields
from waystation.core.settings.section import Secret, Section
from waystation.pipeline.payloads.paths import GONE, JsonPath, Place, rebuilt


class Action(StrEnum):
    """What becomes of a value."""

    KEEP = "keep"
    DROP = "drop"
    HASH = "hash"
    ENCRYPT = "encrypt"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of the values at a path, or of texts that match a pattern."""

    action: Action
    """`keep`, `drop`, `hash` or `encrypt`."""
    queue: str = "*"
    """Name or pattern of the queues that it holds for."""
    path: str = ""
    """Path in data, result and progress, such as `$.card.number` or `$.items[*].email`."""
    pattern: str = ""
    """Regular expression; every match in a text is replaced, also in reasons and logs."""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.pattern):
            raise InvalidOption("a rule needs either a path or a pattern")
        if self.path:
            JsonPath.parse(self.path)
        else:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise InvalidOption(
                    f"pattern must be a regular expression ({error}), got {self.pattern!r}"
                ) from None
            if self.action is Action.KEEP:
                raise InvalidOption("keep needs a path; a text is kept by default")


class PayloadSettings(Section, frozen=True, kw_only=True):
    """What the history keeps of a job besides its events."""

    keep: bool = True
    """Whether data, options, results and logs are kept."""
    limit: int = 65_536
    """Most bytes of data or of a result; of a larger one only its size and hash are kept."""
    retain: int = 30
    """Days that payloads are kept; events and what is computed from them stay."""
    fields: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Fields by which jobs are found quickly, and their paths in the data."""
    rules: Sequence[Rule] = ()
    """What is dropped, hashed or encrypted before it is stored; the first rule that fits counts."""
    keys: Secret | None = None
    """Key ring for `hash` and `encrypt`: `name=base64`, separated by commas; the first one
    encrypts, the others still decrypt."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.limit < 1024:
            raise InvalidOption(f"limit must be at least 1024, got {self.limit}")
        if self.retain < 1:
            raise InvalidOption(f"retain must be at least 1, got {self.retain}")
        for name, path in self.fields.items():
            if not NAME.fullmatch(name):
                raise InvalidOption(f"fields: {name!r} must be lower-case letters, digits and _")
            JsonPath.parse(path)
        ring = KeyRing(self.keys)
        secret = [each for each in self.rules if each.action in (Action.HASH, Action.ENCRYPT)]
        if secret and not ring:
            raise InvalidOption(f"keys must be set, because a rule says {secret[0].action}")


HASHED = "hash:"
ENCRYPTED = "enc:"
_ENCRYPTED = re.compile(r"enc:(?:([a-z][a-z0-9_]*):([A-Za-z0-9_=-]+);|:)")
"""An encrypted value, or a user's `enc:` with its colon doubled."""
MASK = "***"
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)


class Sealer:
    """Hashes and encrypts values with a key ring."""

    def __init__(self, keys: str | None) -> None:
        self._ring = KeyRing(keys)

    def hashed(self, value: Any) -> str:
        """The keyed hash of a value."""
        self._check()
        return HASHED + self._ring.digest(_text_of(value).encode())[:32]

    def encrypted(self, value: Any) -> str:
        """A value that only the key ring can read."""
        self._check()
        sealed = self._ring.encrypt(_encoded(value).encode())
        return f"{ENCRYPTED}{self._ring.first}:{base64.urlsafe_b64encode(sealed).decode()};"

    def opened(self, document: str) -> str:
        """A document with every encrypted value decrypted; refuses one whose key is not there.

        Only for what went through rules that encrypt: in others, a text of this form is a user's.
        """
        try:
            value = msgspec.json.decode(document)
        except _UNREADABLE:
            return self.opened_text(document)
        return _encoded(self._opened(value))

    def opened_text(self, text: str) -> str:
        """The same of a text that is no document, such as a name."""
        return _text_of(self._opened_text(text))

    def _opened(self, value: Any) -> Any:
        match value:
            case str():
                return self._opened_text(value)
            case dict():
                named = cast("dict[str, Any]", value).items()
                return {_text_of(self._opened_text(k)): self._opened(each) for k, each in named}
            case list():
                return [self._opened(each) for each in cast("list[Any]", value)]
            case _:
                return value

    def _opened_text(self, text: str) -> Any:
        whole = _ENCRYPTED.fullmatch(text)
        if whole is not None:
            return self._open(whole)
        return _ENCRYPTED.sub(lambda found: _text_of(self._open(found)), text)

    def _open(self, found: "re.Match[str]") -> Any:
        if found[1] is None:
            return ENCRYPTED
        raw = self._ring.decrypt(found[1], base64.urlsafe_b64decode(found[2]))
        return self._opened(msgspec.json.decode(raw))

    def _check(self) -> None:
        if not self._ring:
            raise InvalidInput("pipeline.payloads.keys is not set")


class After(NamedTuple):
    """What the rules have left of a document."""

    text: str | None
    """None when it could not be read: nothing is kept of what rules cannot be applied to."""
    is_whole: bool = True
    """Whether nothing was dropped or hashed."""


class _Made(str):
    """A text that a rule has put in place of a value, which later rules leave alone."""

    __slots__ = ()


class QueueRules:
    """The rules of one queue."""

    def __init__(self, rules: Sequence[Rule], sealer: Sealer) -> None:
        self._sealer = sealer
        self._paths = [
            (number, JsonPath.parse(each.path), each.action)
            for number, each in enumerate(rules)
            if each.path
        ]
        self._patterns = [
            (number, re.compile(each.pattern), each.action)
            for number, each in enumerate(rules)
            if each.pattern
        ]
        self.encrypts = any(each.action is Action.ENCRYPT for each in rules)
        """Whether documents are to be opened by the key ring before they are used again."""

    @property
    def is_empty(self) -> bool:
        """Whether everything is kept as it is."""
        return not (self._paths or self._patterns)

    def document(self, text: str) -> After:
        """A JSON text after the rules; one that is no JSON is a text, if no rule has a path."""
        return self._judged(text, self._paths)

    def texts(self, text: str) -> After:
        """A JSON text whose shape is ours, after the patterns."""
        return self._judged(text, ())

    def text(self, text: str) -> After:
        """A text after the patterns."""
        judging = _Judging(self._sealer, (), self._patterns, self.encrypts)
        return After(judging.text(text), judging.is_whole)

    def _judged(self, text: str, paths: Sequence[tuple[int, JsonPath, Action]]) -> After:
        if not (paths or self._patterns):
            return After(text)
        judging = _Judging(self._sealer, paths, self._patterns, self.encrypts)
        try:
            return After(_encoded(judging.value(msgspec.json.decode(text))), judging.is_whole)
        except _UNREADABLE:
            # An escape may hide what a pattern looks for.
            if paths or "\\" in text:
                return After(None, is_whole=False)
            return After(judging.text(text), judging.is_whole)


class _Judging:
    """The rules at work on one document."""

    def __init__(
        self,
        sealer: Sealer,
        paths: Sequence[tuple[int, JsonPath, Action]],
        patterns: Sequence[tuple[int, "re.Pattern[str]", Action]],
        escapes: bool,
    ) -> None:
        self._sealer = sealer
        self._paths = paths
        self._patterns = patterns
        self._escapes = escapes
        self._kept: dict[Place, int] = {}
        """Places that are kept, and the number of the rule that says so."""
        self.is_whole = True

    def value(self, value: Any) -> Any:
        """A value after all rules."""
        for number, path, action in self._paths:
            if action is Action.KEEP:
                for place, _ in path.found(value):
                    self._kept.setdefault(place, number)
            else:
                value = path.replaced(value, partial(self._replaced, number, action))
        return self._without_patterns(value, ())

    def text(self, text: str, before: int | None = None) -> str:
        """A text after the patterns, or only those of rules before one."""
        parts = [text]
        for number, pattern, action in self._patterns:
            if before is None or number < before:
                parts = [made for part in parts for made in self._cut(part, pattern, action)]
        return "".join(each if isinstance(each, _Made) else self._escaped(each) for each in parts)

    def _replaced(self, number: int, action: Action, place: Place, value: Any) -> Any:
        if value is GONE or isinstance(value, _Made) or self._keeper(place) is not None:
            return value
        if any(each[: len(place)] == place for each in self._kept):
            # Something inside is kept, so the rest is treated value by value.
            return rebuilt(value, place, partial(self._replaced, number, action))
        if action is Action.DROP:
            self.is_whole = False
            return GONE
        if action is Action.ENCRYPT:
            value = self._without_patterns(value, place, number)
        return self._made(value, action)

    def _without_patterns(self, value: Any, place: Place, before: int | None = None) -> Any:
        """A value without what matches a pattern, of all rules or of those before one."""
        keeper = self._kept.get(place)
        if keeper is not None:
            before = keeper if before is None else min(before, keeper)
        match value:
            case _Made():
                return str(value)
            case str():
                return self.text(value, before)
            case dict():
                named = cast("dict[str, Any]", value).items()
                return {
                    self.text(name, before): self._without_patterns(each, (*place, name), before)
                    for name, each in named
                }
            case list():
                listed = enumerate(cast("list[Any]", value))
                return [self._without_patterns(each, (*place, at), before) for at, each in listed]
            case _:
                return self._number(value, before)

    def _number(self, value: Any, before: int | None) -> Any:
        """A number may be what a pattern looks for, such as a card's."""
        shown = _encoded(value)
        for number, pattern, action in self._patterns:
            if (before is None or number < before) and pattern.search(shown):
                return str(self._made(value, action))
        return value

    def _cut(self, part: str, pattern: "re.Pattern[str]", action: Action) -> Iterator[str]:
        """A part of a text as what matches a pattern, replaced, and what lies between."""
        if isinstance(part, _Made):
            yield part
            return
        end = 0
        for found in pattern.finditer(part):
            if found[0]:
                yield part[end : found.start()]
                plain = self._escaped(found[0]) if action is Action.ENCRYPT else found[0]
                yield self._made(plain, action)
                end = found.end()
        yield part[end:]

    def _made(self, value: Any, action: Action) -> _Made:
        self.is_whole = self.is_whole and action is Action.ENCRYPT
        match action:
            case Action.HASH:
                return _Made(self._sealer.hashed(value))
            case Action.ENCRYPT:
                return _Made(self._sealer.encrypted(value))
            case _:
                return _Made(MASK)

    def _escaped(self, text: str) -> str:
        return text.replace(ENCRYPTED, f"{ENCRYPTED}:") if self._escapes else text

    def _keeper(self, place: Place) -> int | None:
        """The rule that keeps a place, or something around it."""
        keepers = (self._kept.get(place[:depth]) for depth in range(len(place) + 1))
        return next((each for each in keepers if each is not None), None)


class Rules:
    """The rules of all queues."""

    def __init__(self, settings: PayloadSettings) -> None:
        self._settings = settings
        self._by_queue: dict[str, QueueRules] = {}

    def of(self, queue: str) -> QueueRules:
        """The rules that hold for a queue: those with its name, or a pattern that it matches."""
        if queue not in self._by_queue:
            mine = [
                each
                for each in self._settings.rules
                if each.queue == queue or fnmatch.fnmatchcase(queue, each.queue)
            ]
            self._by_queue[queue] = QueueRules(mine, self._sealer)
        return self._by_queue[queue]

    @cached_property
    def _sealer(self) -> Sealer:
        return Sealer(self._settings.keys)


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else _encoded(value)
