"""Pieces of a range: a stream with more entries than a task should read is cut by time.

Nobody knows how many entries a piece should have, because a server counts them at its ends only.
All are expected in the last piece: only the reports on all pieces together tell what was lost.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from redis import Redis

from waystation.core.store import faults
from waystation.pipeline.sources.offsets import LAST_SEQ, Offset, StreamRange, id_order

LOOKS = 6
"""Times that the busy part of a range is looked at more closely: from a year to a second."""
FEW = 50
"""Entries below which a slot of time is not busy."""

Slot: TypeAlias = tuple[int, int]
"""The first and the last millisecond of some time."""


def pieces(client: Redis, span: StreamRange, *, many: int, few: int = FEW) -> list[StreamRange]:
    """A range in pieces of equal time, about `many`; time with few entries does not count.

    A millisecond is never cut, so whatever a script adds about a job is in one piece.
    """
    last_ms = span.until.order[0]
    if last_ms <= span.after.order[0]:
        return [span]
    with faults.translated():
        found: Any = client.xrange(span.stream.key, f"({span.after.id}", span.until.id, count=1)
        if not found:
            return [span]
        busy = [(id_order(found[0][0].decode())[0], last_ms)]
        for _ in range(LOOKS):
            slots = _slots(busy, many)
            busy = _busy(client, span.stream.key, slots, few)
            if len(busy) > len(slots) // 2:
                break
    cuts = [Offset(f"{end_ms}-{LAST_SEQ}", span.after.added) for _, end_ms in busy[:-1]]
    guess = span.size // (len(cuts) + 1)
    edges = [span.after, *cuts, span.until]
    return [StreamRange(span.stream, *each, guess) for each in pairwise(edges)]


def _slots(times: Sequence[Slot], many: int) -> list[Slot]:
    """Some time in slots of equal length."""
    length = -(-sum(end - start + 1 for start, end in times) // many)
    return [
        (first, min(first + length - 1, end))
        for start, end in times
        for first in range(start, end + 1, length)
    ]


def _busy(client: Redis, stream: str, slots: Sequence[Slot], few: int) -> list[Slot]:
    """The slots that have at least so many entries."""
    asking: Any = client.pipeline(transaction=False)
    for start_ms, end_ms in slots:
        asking.xrange(stream, start_ms, end_ms, count=few)
    return [slot for slot, found in zip(slots, asking.execute(), strict=True) if len(found) == few]
