"""Offsets in event streams, and the ranges between them.

An offset is an entry id and the number of entries ever added when the stream reached it. The
difference of two such numbers is how many entries a range should have, so entries that were trimmed
before they could be read are counted exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from deltalake import DeltaTable

from waystation.core.errors import HistoryCut, Malformed
from waystation.pipeline.storage.table_log import COMMITS_TO_REPLAY, every_noted

BEGINNING = "0-0"
LAST_SEQ = 2**64 - 1
"""The greatest second number of an entry id."""
OFFSETS_NOTE = "places"
"""The note in a commit with the offsets reached; its text is part of existing tables."""

_VERSION = 1
_MOVED = 2
"""The version of notes with only the streams that have moved: who does not know it reads none."""
FEW = 100
"""Streams of which every commit notes all."""
WHOLE_EVERY_MS = 24 * 3_600_000
"""Age from which on all streams are noted again: logs are cleared up after some weeks."""


class EventStream(NamedTuple):
    """One stream: its product, its queue and its key."""

    product: str
    queue: str
    key: str


class Offset(NamedTuple):
    """How far a stream was read."""

    id: str = BEGINNING
    added: int | None = 0
    """Entries ever added up to here; None where the server does not count them."""

    @property
    def order(self) -> tuple[int, int]:
        """The numbers that offsets are compared by."""
        return id_order(self.id)


class StreamRange(NamedTuple):
    """The entries of one stream after one offset and up to another."""

    stream: EventStream
    after: Offset
    until: Offset
    guess: int | None = None
    """Entries that a piece of a range may have: nobody has counted them."""

    @property
    def went_back(self) -> bool:
        """Whether it ends before it begins: the stream was deleted and began again."""
        return self.until.order < self.after.order

    @property
    def size(self) -> int:
        """Entries added in the range; 1 where the server does not count them."""
        if self.guess is not None:
            return self.guess
        if self.after.added is None or self.until.added is None:
            return 1
        return max(0, self.until.added - self.after.added)


def behind(here: Offset, end: Offset) -> int | None:
    """Entries between two offsets of a stream; None where the server does not count them."""
    if here.added is None or end.added is None:
        return None
    # A stream that was deleted and began again holds only new entries.
    return end.added - here.added if end.added >= here.added else end.added


def id_order(entry_id: str) -> tuple[int, int]:
    """The two numbers that an entry id is compared by."""
    millis, _, seq = entry_id.partition("-")
    return int(millis), int(seq or 0)


def next_id(entry_id: str) -> str:
    """The smallest id after this one."""
    millis, seq = id_order(entry_id)
    return f"{millis}-{seq + 1}"


def to_json(offsets: Mapping[str, Offset]) -> dict[str, Any]:
    """Offsets by stream key, as Spark keeps them in its checkpoint."""
    return {"v": _VERSION, "streams": {key: list(offsets[key]) for key in sorted(offsets)}}


class Reached(NamedTuple):
    """The offsets that a table has reached, by the notes in its commits."""

    offsets: Mapping[str, Offset] = MappingProxyType({})
    moved: int = 0
    """Notes after the last one with all streams."""
    whole_ms: int | None = None
    """When that was written; None when there is none."""

    def note(self, ends: Mapping[str, Offset], now_ms: int) -> dict[str, Any]:
        """The note on a batch that ends here: with all streams, or with those that have moved."""
        offsets = {**self.offsets, **ends}
        is_late = self.whole_ms is None or now_ms - self.whole_ms >= WHOLE_EVERY_MS
        if is_late or len(offsets) <= FEW or self.moved + 1 >= COMMITS_TO_REPLAY:
            return to_json(offsets)
        return {**to_json(ends), "v": _MOVED}


def reached(table: DeltaTable) -> Reached:
    """The offsets in the last note with all streams, and in those after it."""
    offsets: dict[str, Offset] = {}
    for turn, (note, at_ms) in enumerate(every_noted(table, OFFSETS_NOTE)):
        if note.get("v") != _MOVED:
            return Reached(from_json(note) | offsets, turn, at_ms)
        offsets = from_json({**note, "v": _VERSION}) | offsets
    if offsets:
        raise lost(table)
    return Reached()


def lost(table: DeltaTable) -> HistoryCut:
    """The refusal to read on where nobody knows from where."""
    return HistoryCut(
        f"the log of {table.table_uri} no longer says how far each stream was read: its entries "
        "about that were deleted. Nothing was read or written, because what is still in the "
        "streams could be stored twice. Restore `_delta_log` from a backup, or begin a new history "
        "in another place"
    )


def from_json(document: Mapping[str, Any]) -> dict[str, Offset]:
    """Read what `to_json` wrote."""
    try:
        if document["v"] != _VERSION:
            raise Malformed(f"offsets must have version {_VERSION}, got {document['v']!r}")
        streams = msgspec.convert(document["streams"], dict[str, tuple[str, int | None]])
        return {key: Offset(*each) for key, each in streams.items() if id_order(each[0])}
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"offsets must hold one for each stream, got {document!r}") from error


def balanced(ranges: Sequence[StreamRange], *, tasks: int, least: int) -> list[list[StreamRange]]:
    """Share ranges among at most `tasks` tasks, the largest first, with `least` entries each."""
    total = sum(each.size for each in ranges)
    many = max(1, min(tasks, len(ranges), -(-total // least)))
    bins: list[list[StreamRange]] = [[] for _ in range(many)]
    loads = [0] * many
    for each in sorted(ranges, key=lambda each: -each.size):
        lightest = loads.index(min(loads))
        bins[lightest].append(each)
        loads[lightest] += each.size
    return [each for each in bins if each]


def between(
    start: Mapping[str, Offset], end: Mapping[str, Offset], streams: Iterable[EventStream]
) -> list[StreamRange]:
    """The range of every stream that has moved."""
    return [
        StreamRange(each, start.get(each.key, Offset()), end[each.key])
        for each in streams
        if start.get(each.key, Offset()) != end[each.key]
    ]
