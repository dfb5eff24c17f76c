"""The way into the queues for files by the thousand: checked before, written in one step."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from waystation.core.errors import InvalidInput
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.telemetry.traces import Ids
from waystation.files import job as jobs
from waystation.files.directory.scan import Found
from waystation.files.options import QueueOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.scripts import Added


class Entry(NamedTuple):
    """A file as the script that puts it in line takes it; `entry` makes one."""

    digest: bytes
    lane: int
    id: str
    payload: bytes
    path: str
    size: int


def entry(
    keys: FileKeys, file: Found, *, priority: str, now_ns: int, trace: Ids | None = None
) -> Entry:
    """Make a file ready for the script; the same for a producer and for a bulk load.

    Without a trace to go on with, the file begins one of its own.
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
    """What may be put in line at once: a twentieth of a second's worth, so that a second holds."""
    return max(1, rate // 20)


class Intake:
    """Puts entries in line; for producers, which have looked at the files themselves."""

    def __init__(
        self, connected: Callable[[], Awaitable[Store]], keys: FileKeys, options: QueueOptions
    ) -> None:
        self._connected = connected
        self._keys = keys
        self._options = options

    async def put(self, entries: Sequence[Entry], *, rate: int = 0) -> Added:
        """Put files in line that were not there before, as far as the rate a second allows."""
        if not entries:
            return Added([], 0)
        for each in entries:
            if type(each) is not Entry:
                raise InvalidInput(f"files are put in line as what entry() makes, got {each!r}")
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
        """Whether what was known when this was last asked under that name is still known.

        Not after the memory was thrown away or turned to a new page, nor at another server, which
        may lack what the last one had.
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

    async def known(self, files: Sequence[Found]) -> list[bool]:
        """Tell which of these files were put in line before."""
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
    """What a server calls itself until it is started again."""
    try:
        return str((await redis.info("server")).get("run_id", ""))
    except ResponseError:
        # Not everybody may ask.
        return ""
