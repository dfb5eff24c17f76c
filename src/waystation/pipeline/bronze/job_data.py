"""What a job was, by product: after which events it is read, from where, and what it has left.

Jobs and their logs are read many at a time. A visitor of a waiting room has no data.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import msgspec
from redis.connection import AbstractConnection
from redis.exceptions import ResponseError

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.events import EventName, Product
from waystation.pipeline.bronze.payload_columns import (
    FIELDS,
    NOTHING,
    JobEntries,
    Left,
    ReadJobs,
    Values,
    left_in_fields,
)
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
