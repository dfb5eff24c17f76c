"""A rate limit that many processes share, checked in one step on the server's clock.

A call that is refused leaves no trace, and a limit that is not used expires.
"""

from typing import Any, NamedTuple, Self

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.store.script import Client, script

MOST = 2**53 - 1
"""The largest number that a script counts exactly."""


class Verdict(NamedTuple):
    """The answer of a limit to one call."""

    allowed: bool
    remaining: int
    """How many more calls would be allowed now."""
    retry_after_ms: int
    """Milliseconds until the next call can be allowed; 0 for a call that was."""

    @classmethod
    def read(cls, reply: Any) -> Self:
        """Read a script's reply."""
        allowed, remaining, retry_after_ms = reply
        return cls(bool(allowed), remaining, retry_after_ms)


class FixedWindow(msgspec.Struct, frozen=True):
    """At most `limit` calls from the first one until `width_ms` later."""

    limit: int
    width_ms: int

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("width_ms", self.width_ms)):
            if not 1 <= value <= MOST:
                raise InvalidOption(f"{name} must be 1 to {MOST}, got {value}")


async def allow(
    redis: Client, key: str, limit: FixedWindow, *, now_ms: int | None = None
) -> Verdict:
    """Count one call against the limit kept under the key, if the limit allows it."""
    now = "" if now_ms is None else now_ms
    at = _At(key)
    return await fixed_window(redis, at, limit=limit.limit, width=limit.width_ms, now=now)


class _At(NamedTuple):
    state: str


@script(reply=Verdict.read)
async def fixed_window(
    redis: Client, keys: _At, *, limit: int, width: int, now: int | str
) -> Verdict:
    """Allow a call when the window that the first call opened has room for it."""
    ...
