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
from waystation.pipeline.payloads.rules import QueueRules, Rules

MOST_WAITING = 20_000
"""Jobs of which events were seen and that are not read yet."""

_ADDED = EventName.ADDED.value.encode()
_KEPT = EventName.KEPT.value.encode()
_ENDED = (EventName.COMPLETED.value.encode(), EventName.FAILED.value.encode())
_NOTED = frozenset((_ADDED, _KEPT, *_ENDED))
_PAYLOADS = frozenset((b"returnvalue", b"data"))
"""Fields of events with results and progress: they belong to `payloads`, and to no other table."""
_TEXTS = frozenset((b"failedReason", b"reason", b"error", b"name", b"path"))
"""Fields of events that hold plain text of a user."""
_OURS = frozenset(
    b"event jobId attemptsMade workerId v line queue at subject attempt worker prev delay due kind "
    b"cron timezone schedule slot lane target took took_ms percent count seq ahead waiting rate "
    b"model views network size deduplicatedJobId".split()
)
"""Fields of events that tables are computed from; what is in none of these sets may be anything."""

RawEntry: TypeAlias = Sequence[Any]
"""An id and a flat list of names and values, as the server sends them."""


class NoCapture:
    """Reads no jobs; events are stored without payloads, and after the rules of their queues."""

    is_full = False

    def __init__(self, queue: str, rules: Rules) -> None:
        self._queue = queue
        self._rules = rules

    def entries(self, page: list[RawEntry]) -> list[RawEntry]:
        """The same page without payloads."""
        return [_stored(entry, self._rules.of(self._queue_of(entry[1]))) for entry in page]

    def _queue_of(self, pairs: Pairs) -> str:
        """The queue of an entry: products with one stream name it in each."""
        return _text(_said(pairs).get(b"queue", b"")) or self._queue

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
        for entry_id, pairs in page:
            # Half of the entries say nothing about when a job should be read.
            if pairs[1] in _NOTED or pairs[0] != b"event":
                self._note(entry_id, pairs)
        return [_stored(entry, self._rules) for entry in page]

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

    def _note(self, entry_id: bytes, pairs: Pairs) -> None:
        """Note the job of an entry, if it says when the job should be read."""
        event, subject = _envelope(pairs)
        if event not in _NOTED or not subject:
            return
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


def _envelope(pairs: Pairs) -> tuple[bytes | None, bytes | None]:
    """The event and the job of an entry."""
    if len(pairs) > 3 and pairs[0] == b"event" and pairs[2] == b"jobId":
        return pairs[1], pairs[3]
    said = _said(pairs)
    return said.get(b"event"), said.get(b"jobId")


def _said(pairs: Pairs) -> dict[bytes, bytes]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _stored(entry: RawEntry, rules: QueueRules) -> RawEntry:
    """An entry as it is stored: without payloads, and after the rules."""
    entry_id, pairs = entry
    if _KEPT in pairs:
        event, subject = _envelope(pairs)
        if event == _KEPT:
            # What a removed job was goes to `payloads` alone.
            return entry_id, [b"event", event, b"jobId", subject or b""]
    if rules.is_empty and _PAYLOADS.isdisjoint(pairs):
        return entry
    kept: list[bytes] = []
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        if name not in _PAYLOADS and (left := _after_rules(name, value, rules)) is not None:
            kept += (name, left)
    return entry_id, kept


def _after_rules(name: bytes, value: bytes, rules: QueueRules) -> bytes | None:
    """The value of a field; None when the rules cannot be applied to it."""
    if rules.is_empty or name in _OURS:
        return value
    text = _text(value)
    if name in _TEXTS or not text.lstrip().startswith(("{", "[", '"')):
        left = rules.text(text).text
    else:
        left = rules.document(text).text
    return None if left is None else left.encode()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
