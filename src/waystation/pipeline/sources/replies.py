"""What the scripts of the data sources reply, read."""

from typing import Any, NamedTuple


class Reach(NamedTuple):
    """The next entries of a stream."""

    last: str
    many: int
    gone: int
    """Entries that were added and are gone; -1 where the server does not count them."""


def reach(raw: Any) -> Reach:
    """The next entries of a stream."""
    last, many, gone = raw
    return Reach(last.decode(), many, gone)
