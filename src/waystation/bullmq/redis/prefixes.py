"""Prefixes: how queues of BullMQ are named where there is more than one prefix. Internal."""

from itertools import permutations

import msgspec

from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.core.errors import InvalidOption

LONGEST_NAME = 512
_SIGNS = set(",*?[]\\")
"""Characters that separate prefixes or make a pattern."""


class Prefixes(msgspec.Struct, frozen=True):
    """The prefixes of BullMQ's keys.

    A queue under the first has its own name. One under another has the prefix in front, such as
    `trial:mail`; no queue of BullMQ has a colon in its name, so no two are called the same.
    """

    every: tuple[str, ...] = (PREFIX,)

    def shown(self, keys: QueueKeys) -> str:
        """What a queue is called here."""
        return self.name_of(keys.prefix, keys.name)

    def name_of(self, prefix: str, name: str) -> str:
        """What the queue of this name under a prefix is called here."""
        return name if prefix == self._first else f"{prefix}:{name}"

    def keys_of(self, shown: str) -> QueueKeys | None:
        """The keys of the queue with this name; None when no queue can have it."""
        place = self.place_of(shown)
        return QueueKeys(place[1], prefix=place[0]) if place and _may_be_name(place[1]) else None

    def required(self, shown: str) -> QueueKeys:
        """The keys of the queue with this name; refuses a name that no queue can have."""
        if (keys := self.keys_of(shown)) is None:
            raise self.refusal(shown)
        return keys

    def refusal(self, shown: str) -> InvalidOption:
        """The error about a queue that is called so."""
        known = ", ".join(self.every)
        return InvalidOption(f"queue must be under a prefix that is known ({known}), got {shown!r}")

    def place_of(self, shown: str) -> tuple[str, str] | None:
        """Prefix and own name of the queue that is called so; None under no prefix of these."""
        prefix, colon, name = shown.rpartition(":")
        prefix = prefix if colon else self._first
        # Whoever wrote the first prefix in front would have two names for one queue.
        if prefix not in self.every or (colon and prefix == self._first):
            return None
        return prefix, name

    @property
    def _first(self) -> str:
        return self.every[0] if self.every else ""


def unless_default(prefix: str) -> str:
    """A prefix as recommendations name it: empty for the default one."""
    return "" if prefix == PREFIX else prefix


def check_several(prefixes: tuple[str, ...]) -> None:
    """Refuse prefixes whose keys, or whose queues, could not be told apart."""
    for each in prefixes:
        if not each or not each.isprintable() or any(c in _SIGNS or c.isspace() for c in each):
            signs = " ".join(sorted(_SIGNS))
            raise InvalidOption(f"prefix must be without blanks and {signs}, got {each!r}")
        if prefixes.count(each) > 1:
            raise InvalidOption(f"prefix must be given once, got {each!r} twice")
    for outer, inner in permutations(prefixes, 2):
        if inner.startswith(f"{outer}:"):
            # A job of one and a queue of the other could have the same key.
            raise InvalidOption(
                f"prefix must not lie within another one, got {inner!r} and {outer!r}"
            )


def _may_be_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()
