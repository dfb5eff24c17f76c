"""Prefixes: how queues of BullMQ are named where there is more than one prefix."""

import msgspec

from waystation.bullmq.redis.keys import PREFIX, QueueKeys

LONGEST_NAME = 512


class Prefixes(msgspec.Struct, frozen=True):
    """The prefixes of BullMQ's keys.

    A queue under the first has its own name. One under another has the prefix in front, such as
    `trial:mail`; no queue of BullMQ has a colon in its name, so no two are called the same.
    """

    every: tuple[str, ...] = (PREFIX,)

    def shown(self, keys: QueueKeys) -> str:
        """What a queue is called here."""
        return keys.name if keys.prefix == self._first else keys.qualified

    def keys_of(self, shown: str) -> QueueKeys | None:
        """The keys of the queue with this name; None when no queue can have it."""
        prefix, colon, name = shown.rpartition(":")
        prefix = prefix if colon else self._first
        # Whoever wrote the first prefix in front would have two names for one queue.
        if prefix not in self.every or (colon and prefix == self._first) or not _may_be_name(name):
            return None
        return QueueKeys(name, prefix=prefix)

    @property
    def _first(self) -> str:
        return self.every[0] if self.every else ""


def _may_be_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()
