"""Capture: jobs read from the queue when their events are, and what removed ones have left.

A job is read after it was added and again after its end, or once when both are seen together. One
that was removed before it could be read may have left an event `kept`; otherwise its row says what
is missing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from waystation.core.events import EventName
from waystation.pipeline.bronze.job_hashes import BATCH_JOBS, HashReader
from waystation.pipeline.bronze.payload_columns import (
    NOTHING,
    Batches,
    Pairs,
    PayloadColumns,
    ReadJobs,
    Seen,
)
from waystation.pipeline.payloads.options import PayloadSettings
from waystation.pipeline.payloads.rules import Rules

MOST_WAITING = 20_000
"""Jobs of which events were seen and that are not read yet."""

_ADDED = EventName.ADDED.value.encode()
_KEPT = EventName.KEPT.value.encode()
_ENDED = (EventName.COMPLETED.value.encode(), EventName.FAILED.value.encode())
_NOTED = frozenset((_ADDED, _KEPT, *_ENDED))
_DOCUMENTS = {b"returnvalue", b"data"}
"""Fields of events that hold JSON of a user."""
_TEXTS = {b"failedReason"}
_CHANGED = _DOCUMENTS | _TEXTS

RawEntry: TypeAlias = Sequence[Any]
"""An id and a flat list of names and values, as the server sends them."""


class NoCapture:
    """Reads nothing, and leaves out what removed jobs have left in the stream."""

    is_full = False

    def entries(self, page: list[RawEntry]) -> list[RawEntry]:
        """The same page without payloads."""
        return [_bare(entry) if _KEPT in entry[1] else entry for entry in page]

    def take(self) -> Iterator[Batches]:
        """No rows."""
        return iter(())


class Capture:
    """Reads the jobs of one BullMQ queue as their events go by."""

    def __init__(
        self, reader: HashReader, queue: str, settings: PayloadSettings, rules: Rules
    ) -> None:
        self._reader = reader
        self._rules = rules.of(queue)
        self._columns = PayloadColumns(queue, settings, self._rules)
        self._waiting: dict[bytes, Seen] = {}
        self._replaced: list[tuple[bytes, Seen]] = []

    def entries(self, page: list[RawEntry]) -> list[RawEntry]:
        """Note the jobs of a page; the same page with what the rules leave of it."""
        left_behind = [
            number
            for number, (entry_id, pairs) in enumerate(page)
            # Half of the entries say nothing about when a job should be read.
            if (pairs[1] in _NOTED or pairs[0] != b"event") and self._note(entry_id, pairs) == _KEPT
        ]
        if left_behind:
            # What they carry goes to `payloads`, after the rules.
            page = list(page)
            for number in left_behind:
                page[number] = _bare(page[number])
        return page if self._rules.is_empty else [self._after_rules(*entry) for entry in page]

    @property
    def is_full(self) -> bool:
        """Whether the jobs noted should be read now."""
        return len(self._waiting) >= MOST_WAITING

    def take(self) -> Iterator[Batches]:
        """Read the jobs noted so far, some at a time."""
        noted, self._waiting = self._waiting, {}
        gone, self._replaced = self._replaced, []
        # Whatever is under the id of a job that has left what it was is another job.
        gone += [(subject, seen) for subject, seen in noted.items() if seen.kept]
        for first in range(0, len(gone), BATCH_JOBS):
            subjects, seen = zip(*gone[first : first + BATCH_JOBS], strict=True)
            jobs = ReadJobs()
            jobs.extend(subjects, seen, [NOTHING] * len(subjects))
            yield self._columns.batches(jobs)
        waiting = {subject: seen for subject, seen in noted.items() if not seen.kept}
        for jobs in self._reader.read(waiting):
            yield self._columns.batches(jobs)

    def _note(self, entry_id: bytes, pairs: Pairs) -> bytes | None:
        """Note the job of an entry, if it says when the job should be read; returns its event."""
        event, subject = _envelope(pairs)
        if event not in _NOTED or not subject:
            return event
        seen = self._waiting.get(subject)
        if seen is not None and event == _ADDED and (seen.end or seen.kept):
            # The id is used again: of the job before there is what it has left.
            self._replaced.append((subject, seen))
            seen = None
        if seen is None:
            seen = self._waiting[subject] = Seen(entry_id)
        seen.last = entry_id
        if event == _ADDED:
            seen.added = pairs
        elif event == _KEPT:
            seen.kept = pairs
        else:
            seen.end = pairs
        return event

    def _after_rules(self, entry_id: bytes, pairs: Pairs) -> RawEntry:
        if _CHANGED.isdisjoint(pairs):
            return entry_id, pairs
        changed = list(pairs)
        for number in range(0, len(pairs), 2):
            text = _text(pairs[number + 1])
            if pairs[number] in _DOCUMENTS:
                changed[number + 1] = self._rules.document(text).encode()
            elif pairs[number] in _TEXTS:
                changed[number + 1] = self._rules.text(text).encode()
        return entry_id, changed


def _envelope(pairs: Pairs) -> tuple[bytes | None, bytes | None]:
    """The event and the job of an entry."""
    if len(pairs) > 3 and pairs[0] == b"event" and pairs[2] == b"jobId":
        return pairs[1], pairs[3]
    said = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return said.get(b"event"), said.get(b"jobId")


def _bare(entry: RawEntry) -> RawEntry:
    """An entry with its envelope alone, if it is the last of a removed job."""
    event, subject = _envelope(entry[1])
    if event != _KEPT:
        return entry
    return entry[0], [b"event", event, b"jobId", subject or b""]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
