"""Unmatched files: those that a worker fetched without having a handler for them.

A worker cannot choose what it fetches from a queue. It moves what it has no handler for to a
stream; every worker reads the stream, each entry once, and takes what it has a handler for.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from waystation.core.store.commands import ask
from waystation.core.store.script import Client
from waystation.files.job import Job
from waystation.files.redis import lists
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.replies import Settlement

START = "0-0"
PAGE = 100
"""Entries read in one call, and about the most of a priority that a worker remembers."""
REREAD_S = 60.0
"""How often a worker reads it from the start: a clock that was set back hides new entries."""


class HandledFiles(NamedTuple):
    """The files that a worker has handlers for."""

    patterns: Sequence[str]
    """The patterns, as its heartbeat publishes them."""
    wants: Callable[[Job], bool] | None
    """True for a file that has a handler; None when every file has one."""


class Entry(NamedTuple):
    """One unmatched file."""

    id: str
    lane: int
    raw: bytes
    job: Job | None
    """None when the bytes are no job."""


class UnmatchedFiles:
    """The unmatched files from one worker's view: how far it has read, and which it can take."""

    def __init__(
        self,
        keys: FileKeys,
        wants: Callable[[Job], bool] | None = None,
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._wants = wants
        self._timer = timer
        self._reread_at = timer() + REREAD_S
        self._ours: list[list[str]] = [[] for _ in keys.queues]
        self._held_up = [False for _ in keys.queues]
        """Priorities of which the last call took nothing, such as those that are paused."""
        self._passed_over = set[int]()
        """Priorities with entries that were read and not remembered."""
        self._newest = START
        self.cursor = START

    def is_wanted(self, job: Job) -> bool:
        """True when this worker has a handler for the file."""
        return self._wants is None or self._wants(job)

    @property
    def has_new(self) -> bool:
        """True when there are new entries, and room to remember them.

        What a paused priority has does not keep the entries of the others from being read.
        """
        is_behind = _order(self.cursor) < _order(self._newest)
        moving = zip(self._ours, self._held_up, strict=True)
        return is_behind and sum(len(ids) for ids, held_up in moving if not held_up) < PAGE

    async def look(self, client: Client) -> None:
        """Read a page of new entries, and remember those for this worker."""
        if not self.has_new:
            return
        newest = self._newest
        page = await read(client, self._keys, after=self.cursor)
        for entry in page:
            # Another call may have read the same meanwhile.
            is_new = _order(entry.id) > _order(self.cursor)
            if is_new and entry.job and self.is_wanted(entry.job):
                self._remember(entry.lane - 1, entry.id)
        self._pass(page[-1].id if page else newest)

    def _remember(self, place: int, id: str) -> None:
        if len(self._ours[place]) < 2 * PAGE:
            self._ours[place].append(id)
        else:
            self._passed_over.add(place)

    def reserve(self, most: int) -> "Picks":
        """Entries for the next call to take; no other call takes them."""
        picks = Picks([ids[:most] for ids in self._ours])
        for ids in self._ours:
            del ids[:most]
        return picks

    def release(self, picks: "Picks", tried: Sequence[int] = ()) -> None:
        """Remember the entries that a call did not try to take."""
        counts = tried or [0] * len(self._ours)
        for place, (picked, count) in enumerate(zip(picks.by_lane, counts, strict=True)):
            self._ours[place][:0] = picked[count:]
            if picked:
                self._held_up[place] = not count

    def settled(self, settlement: Settlement) -> None:
        """Note the end of the stream, and how far this worker has read."""
        self._newest = settlement.newest
        is_missing = any(not self._ours[place] for place in self._passed_over)
        if settlement.newest == START or is_missing or self._timer() >= self._reread_at:
            self._reread_at = self._timer() + REREAD_S
            self.cursor = START
            self._ours = [[] for _ in self._ours]
            self._passed_over.clear()
        else:
            self._pass(settlement.cursor)

    def _pass(self, id: str) -> None:
        self.cursor = max(self.cursor, id, key=_order)


class Picks:
    """Entries that one call tries to take, for each lane."""

    def __init__(self, by_lane: Sequence[Sequence[str]]) -> None:
        self.by_lane = by_lane
        self.text = ";".join(f"{lane},{id}" for lane, ids in enumerate(by_lane, 1) for id in ids)


async def read(
    client: Client, keys: FileKeys, *, after: str = START, until: str = "+"
) -> list[Entry]:
    """A page of entries behind one, the oldest first."""
    page: list[Any] = await ask(client, "XRANGE", keys.unmatched, f"({after}", until, "COUNT", PAGE)
    return [_entry(keys, id.decode(), fields) for id, fields in page]


def _entry(keys: FileKeys, id: str, fields: list[bytes] | dict[bytes, bytes]) -> Entry:
    # Our own pipe hands out what the server sends, and redis-py makes a mapping of it.
    known = (
        dict(zip(fields[::2], fields[1::2], strict=True)) if isinstance(fields, list) else fields
    )
    raw: bytes = known.get(b"job", b"")
    lane = known.get(b"lane", b"")
    last = len(keys.queues)
    number = min(max(int(lane), 1), last) if lane.isdigit() else last
    return Entry(id, number, raw, lists.read(raw))


def _order(id: str) -> tuple[int, int]:
    millis, _, number = id.partition("-")
    return int(millis), int(number)
