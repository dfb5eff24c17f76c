"""Capture: jobs read from the queue when their events are, and what removed ones have left.

A job is read after it was added and again after its end, or once when both are seen together. One
that was removed before it could be read may have left what it was in an event; otherwise its row
says what is missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from waystation.core.events import EventName
from waystation.pipeline.bronze.job_data import BATCH_JOBS, HashReader, JobData
from waystation.pipeline.bronze.payload_columns import (
    NOTHING,
    Batches,
    JobEntries,
    Pairs,
    PayloadColumns,
    ReadJobs,
)
from waystation.pipeline.payloads.rules import PayloadSettings, QueueRules, Rules
from waystation.pipeline.products import product_named
from waystation.pipeline.sources.offsets import EventStream

MOST_WAITING = 20_000
"""Jobs of which events were seen and that are not read yet."""
MOST_HELD = 64 * 2**20
"""Bytes of what such jobs have left in their events."""

_KEPT = EventName.KEPT.value.encode()
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

    def __init__(self, stream: EventStream, rules: Rules) -> None:
        self._stream = stream
        self._rules = rules
        self._names_queue = product_named(stream.product).field_names.queue.encode()

    def entries(self, page: list[RawEntry]) -> list[RawEntry]:
        """The same page without payloads."""
        if not self._names_queue:
            rules = self._rules.of(self._stream.queue)
            return [_stored(entry, rules) for entry in page]
        return [_stored(entry, self._rules.of(self._queue_of(entry[1]))) for entry in page]

    def _queue_of(self, pairs: Pairs) -> str:
        """The queue of an entry: all products but BullMQ name it in each."""
        return self._named_queue(pairs) or self._stream.queue

    def _named_queue(self, pairs: Pairs) -> str:
        name = self._names_queue
        return _text(_said(pairs).get(name, b"")) if name else self._stream.queue

    def take(self) -> Iterator[Batches]:
        """No rows."""
        return iter(())


class Capture(NoCapture):
    """Reads the jobs of one stream as their events go by."""

    def __init__(
        self,
        stream: EventStream,
        rules: Rules,
        data: JobData,
        reader: HashReader | None,
        settings: PayloadSettings,
    ) -> None:
        super().__init__(stream, rules)
        self._data = data
        self._noted = data.born | data.ended | data.last
        self._reader = reader
        self._settings = settings
        self._waiting: dict[bytes, JobEntries] = {}
        self._replaced: list[tuple[bytes, JobEntries]] = []
        self._held = 0

    def entries(self, page: list[RawEntry]) -> list[RawEntry]:
        """Note the jobs of a page; the same page with what the rules leave of it."""
        for entry_id, pairs in page:
            # Half of the entries say nothing about when a job should be read.
            if pairs[1] in self._noted or pairs[0] != b"event":
                self._note(entry_id, pairs)
        return super().entries(page)

    @property
    def is_full(self) -> bool:
        """Whether the jobs noted should be read now."""
        return len(self._waiting) >= MOST_WAITING or self._held >= MOST_HELD

    def take(self) -> Iterator[Batches]:
        """Read the jobs noted so far, some at a time."""
        noted, self._waiting = self._waiting, {}
        gone, self._replaced, self._held = self._replaced, [], 0
        # Whatever is under the id of a job that has left what it was is another job.
        gone += [(subject, seen) for subject, seen in noted.items() if seen.kept]
        waiting = [(subject, seen) for subject, seen in noted.items() if not seen.kept]
        for queue, some in _by_queue(gone):
            columns = self._columns(queue)
            for first in range(0, len(some), BATCH_JOBS):
                subjects, seen = zip(*some[first : first + BATCH_JOBS], strict=True)
                jobs = ReadJobs(self._data.left)
                jobs.extend(subjects, seen, [NOTHING] * len(subjects))
                yield columns.batches(jobs)
        if self._reader is None:
            return
        for queue, some in _by_queue(waiting):
            columns = self._columns(queue)
            for jobs in self._reader.read(dict(some)):
                yield columns.batches(jobs)

    def _columns(self, queue: str) -> PayloadColumns:
        rules = self._rules.of(queue)
        return PayloadColumns(queue, self._settings, rules, self._stream.product)

    def _note(self, entry_id: bytes, pairs: Pairs) -> None:
        """Note the job of an entry, if it says when the job should be read."""
        event, subject = _envelope(pairs, self._data.subject)
        if event not in self._noted or not subject:
            return
        seen = self._waiting.get(subject)
        queue = self._named_queue(pairs) or (seen.queue if seen else "")
        if not queue:
            # Nobody knows which rules would hold for it.
            return
        if seen is not None and event in self._data.born and (seen.end or seen.kept):
            # The id is used again: of the job before there is what it has left.
            self._replaced.append((subject, seen))
            seen = None
        if seen is None:
            seen = self._waiting[subject] = JobEntries(entry_id)
        seen.last, seen.queue = entry_id, queue
        if event in self._data.born:
            seen.added = pairs
        elif event in self._data.last:
            seen.kept = pairs
            self._held += sum(map(len, pairs))
        else:
            seen.end = pairs


def _by_queue(
    jobs: Sequence[tuple[bytes, JobEntries]],
) -> Iterable[tuple[str, list[tuple[bytes, JobEntries]]]]:
    found: dict[str, list[tuple[bytes, JobEntries]]] = {}
    for each in jobs:
        found.setdefault(each[1].queue, []).append(each)
    return found.items()


def _envelope(pairs: Pairs, subject: bytes = b"jobId") -> tuple[bytes | None, bytes | None]:
    """The event and the job of an entry."""
    if len(pairs) > 3 and pairs[0] == b"event" and pairs[2] == subject:
        return pairs[1], pairs[3]
    said = _said(pairs)
    return said.get(b"event"), said.get(subject)


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
