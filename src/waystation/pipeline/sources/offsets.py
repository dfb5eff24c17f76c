"""Places in streams, and the stretches between them.

A place is an id and how many entries had been added when the stream reached it. The difference of
two such counts says how many entries lie between, so whatever is not read of them is known to be
lost, to the entry, whoever trimmed it and whenever.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from waystation.core.errors import Malformed

BEGINNING = "0-0"

_VERSION = 1


class Told(NamedTuple):
    """The stream that entries come from."""

    line: str
    queue: str
    stream: str


class Place(NamedTuple):
    """A place in a stream."""

    id: str = BEGINNING
    added: int | None = 0
    """Entries added so far; None where the server does not count them."""

    @property
    def order(self) -> tuple[int, int]:
        """What places are compared by."""
        return id_order(self.id)


class Stretch(NamedTuple):
    """The entries of one stream after one place and up to another."""

    told: Told
    after: Place
    until: Place

    @property
    def size(self) -> int:
        """How many entries were added in it, as far as that is known."""
        if self.after.added is None or self.until.added is None:
            return 1
        return max(0, self.until.added - self.after.added)


def id_order(entry_id: str) -> tuple[int, int]:
    """An id as the two numbers that it is compared by."""
    millis, _, seq = entry_id.partition("-")
    return int(millis), int(seq or 0)


def following(entry_id: str) -> str:
    """The smallest id behind this one."""
    millis, seq = id_order(entry_id)
    return f"{millis}-{seq + 1}"


def write(places: Mapping[str, Place]) -> dict[str, Any]:
    """Places as Spark keeps them in its checkpoint."""
    return {"v": _VERSION, "streams": {key: list(places[key]) for key in sorted(places)}}


def read(offset: Mapping[str, Any]) -> dict[str, Place]:
    """The places that `write` wrote down."""
    try:
        if offset["v"] != _VERSION:
            raise Malformed(f"offsets must have version {_VERSION}, got {offset['v']!r}")
        streams = msgspec.convert(offset["streams"], dict[str, tuple[str, int | None]])
        return {key: Place(*each) for key, each in streams.items() if id_order(each[0])}
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"offsets must hold a place for each stream, got {offset!r}") from error


def packed(stretches: Sequence[Stretch], *, tasks: int, least: int) -> list[list[Stretch]]:
    """Stretches shared out among few tasks, the largest first, none of them nearly idle."""
    total = sum(stretch.size for stretch in stretches)
    many = max(1, min(tasks, len(stretches), -(-total // least)))
    bins: list[list[Stretch]] = [[] for _ in range(many)]
    loads = [0] * many
    for stretch in sorted(stretches, key=lambda each: -each.size):
        lightest = loads.index(min(loads))
        bins[lightest].append(stretch)
        loads[lightest] += stretch.size
    return [each for each in bins if each]


def between(
    start: Mapping[str, Place], end: Mapping[str, Place], told: Iterable[Told]
) -> list[Stretch]:
    """The stretch of every stream that has moved."""
    return [
        Stretch(each, start.get(each.stream, Place()), end[each.stream])
        for each in told
        if start.get(each.stream, Place()) != end[each.stream]
    ]
