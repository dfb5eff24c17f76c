"""Rules of payloads, applied before anything is written.

A hash is keyed, so that values of few possibilities cannot be found by trying; equal values have
equal hashes, so that jobs can still be found and counted by them. An encrypted value is AES-GCM
with the name of its key: whoever holds the key ring can read it.
"""

import base64
import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import msgspec

from waystation.core.errors import InvalidInput
from waystation.core.key_ring import KeyRing
from waystation.pipeline.payloads.options import Action, PayloadSettings, Rule
from waystation.pipeline.payloads.paths import GONE, Change, JsonPath, Place, rebuilt

HASHED = "hash:"
ENCRYPTED = "enc:"
_SEALED = re.compile(r"enc:([a-z][a-z0-9_]*):([A-Za-z0-9_=-]+)")
MASK = "***"


class Sealer:
    """Hashes and encrypts values with a key ring."""

    def __init__(self, keys: str | None) -> None:
        self._ring = KeyRing(keys)

    def hashed(self, value: Any) -> str:
        """The keyed hash of a value."""
        raw = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
        self._check()
        return HASHED + self._ring.digest(raw)[:32]

    def encrypted(self, value: Any) -> str:
        """A value that only the key ring can read."""
        self._check()
        sealed = self._ring.encrypt(msgspec.json.encode(value))
        return f"{ENCRYPTED}{self._ring.first}:{base64.urlsafe_b64encode(sealed).decode()}"

    def opened(self, text: str) -> str:
        """A text with every encrypted value in it decrypted; refuses one whose key is not there."""
        whole = _SEALED.fullmatch(text)
        if whole is not None:
            value = self._open(whole)
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
        # In JSON the value stands in quotes, which it brings itself.
        return re.sub(
            rf'"{_SEALED.pattern}"|{_SEALED.pattern}',
            lambda found: _in_place(found, self._open),
            text,
        )

    def _open(self, found: "re.Match[str]") -> Any:
        groups = [each for each in found.groups() if each is not None]
        raw = self._ring.decrypt(groups[0], base64.urlsafe_b64decode(groups[1]))
        return msgspec.json.decode(raw)

    def _check(self) -> None:
        if not self._ring:
            raise InvalidInput("pipeline.payloads.keys is not set")


def _in_place(found: "re.Match[str]", read: Callable[["re.Match[str]"], Any]) -> str:
    value = read(found)
    if found[0].startswith('"'):
        return msgspec.json.encode(value).decode()
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_sealed(value: Any) -> bool:
    return isinstance(value, str) and value.startswith((HASHED, ENCRYPTED))


class QueueRules:
    """The rules of one queue."""

    def __init__(self, rules: Sequence[Rule], sealer: Sealer) -> None:
        self._sealer = sealer
        self.has_lost = False
        """Whether something was dropped or hashed since this was last set to False."""
        self._paths = [(JsonPath.parse(each.path), each.action) for each in rules if each.path]
        self._patterns = [(re.compile(each.pattern), each.action) for each in rules if each.pattern]

    @property
    def is_empty(self) -> bool:
        """Whether everything is kept as it is."""
        return not (self._paths or self._patterns)

    def document(self, text: str) -> str:
        """A JSON text after the rules; a text that is no JSON is treated as text."""
        if self.is_empty:
            return text
        try:
            value = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            return self.text(text)
        return msgspec.json.encode(self._judged(value)).decode()

    def text(self, text: str) -> str:
        """A text after the patterns."""
        for pattern, action in self._patterns:
            text = pattern.sub(lambda found, action=action: self._word(found[0], action), text)
        return text

    def _judged(self, value: Any) -> Any:
        kept: set[Place] = set()
        for path, action in self._paths:
            if action is Action.KEEP:
                kept |= {place for place, _ in path.found(value)}
            else:
                value = path.replaced(value, self._change(action, kept))
        return self._without_patterns(value) if self._patterns else value

    def _change(self, action: Action, kept: set[Place]) -> Change:
        def change(place: Place, value: Any) -> Any:
            if place in kept or _is_sealed(value) or value is GONE:
                return value
            if any(each[: len(place)] == place for each in kept):
                # Something inside is kept, so the rest is treated value by value.
                return rebuilt(value, place, change)
            self.has_lost = self.has_lost or action is not Action.ENCRYPT
            match action:
                case Action.DROP:
                    return GONE
                case Action.HASH:
                    return self._sealer.hashed(value)
                case Action.ENCRYPT:
                    return self._sealer.encrypted(value)
                case Action.KEEP:
                    return value

        return change

    def _without_patterns(self, value: Any) -> Any:
        match value:
            case str():
                return value if _is_sealed(value) else self.text(value)
            case dict():
                named = cast("dict[str, Any]", value)
                return {
                    self.text(name): self._without_patterns(each) for name, each in named.items()
                }
            case list():
                return [self._without_patterns(each) for each in cast("list[Any]", value)]
            case _:
                # A number may be what a pattern looks for, such as a card's.
                shown = msgspec.json.encode(value).decode()
                changed = self.text(shown)
                return value if changed == shown else changed

    def _word(self, word: str, action: Action) -> str:
        self.has_lost = self.has_lost or action is not Action.ENCRYPT
        match action:
            case Action.HASH:
                return self._sealer.hashed(word)
            case Action.ENCRYPT:
                return self._sealer.encrypted(word)
            case _:
                return MASK


class Rules:
    """The rules of all queues."""

    def __init__(self, settings: PayloadSettings) -> None:
        self._settings = settings
        self._by_queue: dict[str, QueueRules] = {}

    def of(self, queue: str) -> QueueRules:
        """The rules that hold for a queue."""
        if queue not in self._by_queue:
            mine = [each for each in self._settings.rules if fnmatch.fnmatchcase(queue, each.queue)]
            self._by_queue[queue] = QueueRules(mine, self._sealer)
        return self._by_queue[queue]

    @cached_property
    def _sealer(self) -> Sealer:
        return Sealer(self._settings.keys)
