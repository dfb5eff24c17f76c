"""Gaps: events that were trimmed away before a listener could read them.

The server counts every entry that was ever added to a stream, and trims the oldest first. So a
listener that knows how many entries there were up to its position can compute how many entries
after it are gone.
"""

from collections.abc import Sequence

from waystation.bullmq.events.event import QueueEvent
from waystation.bullmq.redis.replies import Extent

BEGINNING = "0-0"

_LAST_OF_A_MILLISECOND = 2**64 - 1


class Gap(QueueEvent, frozen=True, kw_only=True):
    """Events that are lost; the next event happened after them."""

    name: str = "gap"
    """Always `gap`."""
    after: str
    """The id of the last event before them."""
    before: str
    """The id of the first event after them."""
    lost: int | None
    """How many; None when it cannot be known, and then there may have been none."""


class Trail:
    """A listener's position in the stream, and how many entries there were up to it."""

    def __init__(self, at: str, passed: int | None) -> None:
        self.at = at
        self._passed = passed

    @classmethod
    def from_the_start(cls, found: Extent) -> "Trail":
        """Start before all that is still kept."""
        return cls(_just_before(found.first) if found.first else found.last or "0", found.gone)

    @classmethod
    def from_now(cls, found: Extent) -> "Trail":
        """Start after all events so far."""
        return cls(found.last or BEGINNING, found.added)

    @classmethod
    def from_place(cls, at: str, found: Extent) -> "Trail":
        """Start at a given position."""
        if found.added is None or found.behind is None or _trimmed(at, found):
            return cls(at, None)
        return cls(at, found.added - found.behind)

    def follow(self, ids: Sequence[str], found: Extent) -> Gap | None:
        """Go on to the last of these entries; returns the gap before the first, if there is one."""
        gap = self._missed(ids[0], found)
        if gap and found.gone is not None:
            self._passed = found.gone
        if ids[-1] == found.last:
            self._passed = found.added
        elif self._passed is not None:
            self._passed += len(ids)
        self.at = ids[-1]
        return gap

    def _missed(self, first: str, found: Extent) -> Gap | None:
        if not found.first or order(found.first) > order(first):
            # Trimmed since they were read; what was lost before them shows with the next ones.
            return None
        gone, passed = found.gone, self._passed
        if gone is None or passed is None or found.added is None or found.added < passed:
            # Uncounted, or begun anew: the place itself is gone, and perhaps what followed it.
            return _gap(self.at, first, None) if _trimmed(self.at, found) else None
        return _gap(self.at, first, gone - passed) if gone > passed else None


def order(id: str) -> tuple[int, int]:
    """An entry's id as numbers, which can be compared."""
    millis, _, rank = id.partition("-")
    return int(millis), int(rank or 0)


def _trimmed(at: str, found: Extent) -> bool:
    """True when entries after a position may be gone, by the ids alone."""
    if order(at) == order(BEGINNING):
        return False
    if not found.first:
        return order(at) < order(found.last or BEGINNING)
    return order(at) < order(_just_before(found.first))


def _gap(after: str, before: str, lost: int | None) -> Gap:
    # A listener that goes on from here does not get the same gap again.
    return Gap(
        id=_just_before(before), at_ms=order(before)[0], after=after, before=before, lost=lost
    )


def _just_before(id: str) -> str:
    millis, rank = order(id)
    return f"{millis}-{rank - 1}" if rank else f"{millis - 1}-{_LAST_OF_A_MILLISECOND}"
