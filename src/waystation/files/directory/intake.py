"""The intake: adds files by the thousand, checked first and written in one step."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from waystation.core.clock import SERVER_TIME
from waystation.core.errors import InvalidInput
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.telemetry.traces import Ids
from waystation.files import job as jobs
from waystation.files.directory.scan import ScannedFile
from waystation.files.options import QueueOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.replies import Added


class Entry(NamedTuple):
    """A file in the form of the script that adds it; `entry` makes one."""

    digest: bytes
    lane: int
    id: str
    payload: bytes
    path: str
    size: int


def entry(
    keys: FileKeys, file: ScannedFile, *, priority: str, now_ns: int, trace: Ids | None = None
) -> Entry:
    """Make the entry of a file; the same for a producer and for a bulk load.

    Without a trace to continue, the file begins one of its own.
    """
    lane = keys.lane_of(None, priority)
    fresh = "" if trace else os.urandom(24).hex()
    id, payload = jobs.write(
        file.path,
        file.size,
        priority=priority,
        queue=keys.queues[lane - 1],
        now_ns=now_ns,
        trace=trace or (fresh[:32], fresh[32:]),
    )
    path, _ = jobs.readable(file.path)
    return Entry(jobs.digest(*file), lane, id, payload, path, file.size)


def burst_of(rate: int) -> int:
    """Files that may be added at once: a twentieth of the rate, so that it holds over a second."""
    return max(1, rate // 20)


class Intake:
    """Adds entries; for producers, which examine the files themselves."""

    def __init__(
        self, connected: Callable[[], Awaitable[Store]], keys: FileKeys, options: QueueOptions
    ) -> None:
        self._connected = connected
        self._keys = keys
        self._options = options

    async def put(self, entries: Sequence[Entry], *, rate: int = 0) -> Added:
        """Add files that were not added before, within the rate a second."""
        if not entries:
            return Added([], 0)
        for each in entries:
            if type(each) is not Entry:
                raise InvalidInput(f"files are added as what entry() makes, got {each!r}")
        return await scripts.add(
            (await self._connected()).durable,
            self._keys,
            now=SERVER_TIME,
            events_cap=self._options.events_max_len,
            remember_ms=self._options.remember_ms,
            rate=rate,
            burst=burst_of(rate),
            jobs=[part for entry in entries for part in entry],
        )

    async def still_holds(self, mark: str) -> bool:
        """True when the store still remembers all that it did at the last call with that mark.

        False after its memory was deleted or rotated, and on another server, which may lack what
        the last one had.
        """
        store = await self._connected()
        with faults.translated():
            server = await _run_id(store.redis)
        return await scripts.mark(
            store.durable,
            self._keys,
            remember_ms=self._options.remember_ms,
            name=f"{mark}:{server}",
        )

    async def known(self, files: Sequence[ScannedFile]) -> list[bool]:
        """True for each file that was added before."""
        if not files:
            return []
        digests = [jobs.digest(*file) for file in files]
        known = await scripts.recall(
            (await self._connected()).hot,
            self._keys,
            remember_ms=self._options.remember_ms,
            digests=digests,
        )
        return [code == 1 for code in known]


async def _run_id(redis: Any) -> str:
    """The id of a server's run; a new one after each start."""
    try:
        return str((await redis.info("server")).get("run_id", ""))
    except ResponseError:
        # The user may lack the permission.
        return ""
