"""What the scripts of the files queue reply, read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from waystation.core import codec
from waystation.core.errors import Malformed


class Settlement(NamedTuple):
    """The reply of `settle`."""

    codes: Sequence[int]
    """0 for each outcome that was stored, 1 for one whose job the worker no longer held."""
    fetched: Sequence[Sequence[bytes]]
    """The jobs' bytes for each lane, in order."""
    due_in_ms: int
    """Time until the next retry is due; 0 without one, or when the worker has no room for it."""
    tried: Sequence[int]
    """How many of each lane's unmatched entries were tried."""
    newest: str
    """The newest entry of the unmatched files."""
    cursor: str
    """The entry of the unmatched files up to which the worker has read."""


def settlement(answer: Any) -> Settlement:
    """What came of settling and fetching."""
    codes, fetched, due_in_ms, tried, newest, cursor = answer
    return Settlement(codes, fetched, int(due_in_ms), tried, newest.decode(), cursor.decode())


class Added(NamedTuple):
    """The reply of `add`."""

    codes: Sequence[int]
    """NEW, KNOWN or WAITS for each file."""
    wait_ms: int
    """How long to wait before adding those again that exceeded the rate."""


KNOWN, NEW, WAITS = 0, 1, 2


def added(answer: Any) -> Added:
    """What came of adding files."""
    return Added(*answer)


class Heartbeat(msgspec.Struct):
    """What a worker says of itself while it lives."""

    ts: float = 0
    handlers: tuple[str, ...] = ()
    """The files that it has functions for."""


def heartbeat(raw: bytes | None) -> Heartbeat:
    """What a worker's heartbeat says; other programs may have written one that says nothing."""
    try:
        return codec.decode(raw or b"{}", Heartbeat)
    except Malformed:
        return Heartbeat()
