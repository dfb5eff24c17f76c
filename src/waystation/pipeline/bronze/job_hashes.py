"""Reads of jobs and their logs, many at a time."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import msgspec
from redis.connection import AbstractConnection
from redis.exceptions import ResponseError

from waystation.pipeline.bronze.job_data import JobData
from waystation.pipeline.bronze.payload_columns import FIELDS, NOTHING, JobEntries, ReadJobs, Values
from waystation.pipeline.sources.store import own_connection

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
