"""Capture: jobs read from the queue when their events are, and what removed ones have left.

By product it is said after which events a job is read, from where, and what it has left. A job is
read after it was added and again after its end, or once when both are seen together. One that was
removed before it could be read may have left what it was in an event; otherwise its row says what
is missing. A visitor of a waiting room has no data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

import msgspec
from redis.connection import AbstractConnection
from redis.exceptions import ResponseError

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.events import EventName, Product
from waystation.pipeline.bronze.payload_columns import (
    FIELDS,
    NOTHING,
    Batches,
    JobEntries,
    Left,
    Pairs,
    PayloadColumns,
    ReadJobs,
    Values,
    left_in_fields,
)
from waystation.pipeline.payloads.rules import PayloadSettings, QueueRules, Rules
from waystation.pipeline.products import product_named
from waystation.pipeline.sources.offsets import EventStream
from waystation.pipeline.sources.store import own_connection
from waystation.routing.redis.keys import RoutingKeys


class JobData(msgspec.Struct, frozen=True, kw_only=True):
    """Where a product keeps what its jobs were."""

    product: str
    subject: bytes
    """Field of an event with the id of its job."""
    born: frozenset[bytes]
    """Events after which a job is read."""
    ended: frozenset[bytes] = frozenset()
    """Events after which it is read again: how it has ended is known, and it is still there."""
    last: frozenset[bytes]
    """Events that hold what a job was, because it is gone after them."""
    left: Left
    """What such an event says of it."""
    base: Callable[[str, str], str] | None = None
    """What the keys of jobs begin with, from prefix and queue; None where no job has a key."""
    command: bytes = b""
    """The command that reads a job, before its key."""
    arguments: bytes = b""
    """What comes after the key."""
    values: Callable[[Any], Values] = lambda reply: reply
    """What the reply says of it."""
    has_logs: bool = False


class _Routed(msgspec.Struct, rename="camel"):
    """The members of a job of routing that are kept, as they were written."""

    payload: msgspec.Raw = msgspec.Raw(b"{}")
    created_at: msgspec.Raw = msgspec.Raw(b"")


_read_routed = msgspec.json.Decoder(_Routed).decode


def _routed(raw: bytes | None) -> Values:
    """The payload of a job; the whole where it is no job."""
    if raw is None:
        return NOTHING
    try:
        job = _read_routed(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _values({b"data": raw})
    return _values({b"data": bytes(job.payload), b"timestamp": bytes(job.created_at)})


def _values(found: Mapping[bytes, bytes]) -> Values:
    return [found.get(name) for name in FIELDS]


def _names(*events: EventName) -> frozenset[bytes]:
    return frozenset(each.value.encode() for each in events)


def _bulk(*words: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in words)


DATA: Mapping[str, JobData] = {
    each.product: each
    for each in (
        JobData(
            product=Product.BULLMQ.value,
            subject=b"jobId",
            born=_names(EventName.ADDED),
            ended=_names(EventName.COMPLETED, EventName.FAILED),
            last=_names(EventName.KEPT),
            left=left_in_fields,
            base=lambda prefix, queue: QueueKeys(queue, prefix=prefix).base,
            command=b"*%d\r\n" % (len(FIELDS) + 2) + _bulk(b"HMGET"),
            arguments=_bulk(*FIELDS),
            has_logs=True,
        ),
        # What is completed or cancelled loses its data in the same step.
        JobData(
            product=Product.ROUTING.value,
            subject=b"subject",
            born=_names(EventName.ADDED, EventName.FIRED),
            ended=_names(EventName.DEAD),
            last=_names(EventName.COMPLETED, EventName.CANCELLED),
            left=lambda said: _routed(said.get(b"data")),
            base=lambda prefix, _: RoutingKeys(prefix).data_prefix,
            command=b"*2\r\n" + _bulk(b"GET"),
            values=_routed,
        ),
        # The jobs are elements of lists, so none is found by its id.
        JobData(
            product=Product.FILES.value,
            subject=b"subject",
            born=frozenset(),
            last=_names(EventName.COMPLETED, EventName.DEAD),
            left=lambda said: _values({b"data": said[b"data"]} if b"data" in said else {}),
        ),
    )
}
"""What is read of jobs, by product."""


AT_ONCE = 500
"""Jobs that are asked for at once; fewer when they are large."""
FIRST = 50
"""Jobs that are asked for first, before their size is known."""
PAGE_BYTES = 4 * 2**20
"""Pages shrink so that jobs of a megabyte do not come by the hundred."""
BATCH_JOBS = 4096
BATCH_BYTES = 16 * 2**20
"""Bytes of jobs that are worth turning into columns, though there are fewer of them."""
MOST_LOGS = 100
"""Log lines that are kept of a job, the last ones."""

_DATA, _RESULT = FIELDS.index(b"data"), FIELDS.index(b"returnvalue")


class HashReader:
    """Reads jobs whose keys begin with `base`."""

    def __init__(self, client: Any, base: bytes, data: JobData) -> None:
        self._client = client
        self._base = base
        self._data = data
        # Written out, because a client spends more on packing such a command than on its reply.
        self._command = data.command + b"$%d\r\n%b\r\n" + data.arguments

    def read(self, wanted: Mapping[bytes, JobEntries]) -> Iterator[ReadJobs]:
        """The jobs with these ids, some at a time."""
        if not wanted:
            return
        jobs, held = ReadJobs(self._data.left), 0
        left, count = iter(wanted.items()), FIRST
        with own_connection(self._client) as connection:
            page = self._ask(connection, list(islice(left, count)))
            while page.subjects:
                # The server looks up the next page while this one is taken.
                following = self._ask(connection, list(islice(left, count)))
                size = self._receive(connection, page, jobs)
                count = max(
                    1, min(AT_ONCE, count * 4, len(page.subjects) * PAGE_BYTES // max(1, size))
                )
                page, held = following, held + size
                if len(jobs.subjects) >= BATCH_JOBS or held >= BATCH_BYTES:
                    yield jobs
                    jobs, held = ReadJobs(self._data.left), 0
        if jobs.subjects:
            yield jobs

    def _ask(
        self, connection: AbstractConnection, wanted: Sequence[tuple[bytes, JobEntries]]
    ) -> "_Page":
        """Ask for some jobs, and whether any of those that have ended has logs."""
        page = _Page([job_id for job_id, _ in wanted], [seen for _, seen in wanted])
        if wanted:
            keys = [self._base + job_id for job_id in page.subjects]
            commands = [self._command % (len(key), key) for key in keys]
            if self._data.has_logs:
                ended = [index for index, each in enumerate(page.seen) if each.end]
                page.logs = {index: keys[index] + b":logs" for index in ended}
            if page.logs:
                asking = cast(Any, connection).pack_command("EXISTS", *page.logs.values())
                commands += cast("list[bytes]", asking)
            connection.send_packed_command([b"".join(commands)])
        return page

    def _receive(self, connection: AbstractConnection, page: "_Page", jobs: ReadJobs) -> int:
        """Take the replies to `_ask`; returns the bytes of data and results."""
        found = [self._values(connection) for _ in page.subjects]
        jobs.extend(page.subjects, page.seen, found, self._logs(connection, page.logs))
        return sum([len(each[_DATA] or b"") + len(each[_RESULT] or b"") for each in found])

    def _values(self, connection: AbstractConnection) -> Values:
        try:
            return self._data.values(connection.read_response())
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            # Something that is no job lies under its key.
            return NOTHING

    def _logs(
        self, connection: AbstractConnection, keys: Mapping[int, bytes]
    ) -> dict[int, list[bytes]]:
        if not keys or not _is_some(connection):
            return {}
        asking = self._client.pipeline(transaction=False)
        for key in keys.values():
            asking.lrange(key, -MOST_LOGS, -1)
        replies: list[Any] = asking.execute(raise_on_error=False)
        return {
            index: cast("list[bytes]", lines)
            for index, lines in zip(keys, replies, strict=True)
            # Something else than logs may lie under the key.
            if lines and isinstance(lines, list)
        }


class _Page(msgspec.Struct):
    """Jobs that were asked for together."""

    subjects: list[bytes]
    seen: list[JobEntries]
    logs: dict[int, bytes] = msgspec.field(default_factory=dict[int, bytes])
    """Keys of logs, by position."""


def _is_some(connection: AbstractConnection) -> bool:
    """The reply to EXISTS; true also where the server refuses to count so many keys."""
    try:
        return bool(cast(Any, connection.read_response()))
    except ResponseError:
        return True


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
