"""How files get in, and how people look after what is there."""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidOption, Malformed
from waystation.core.events import Line
from waystation.core.line import forecasts, prometheus
from waystation.core.line.forecasts import Forecast
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.options import at_least
from waystation.core.store import faults
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.files import job as jobs
from waystation.files.directory.intake import Entry, Intake, entry
from waystation.files.directory.scan import Found, PathLike, looked_at
from waystation.files.fetch import unmatched as handover
from waystation.files.job import Job
from waystation.files.options import Layout, QueueOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.scripts import NEW
from waystation.files.upkeep import orphans

PER_CALL = 500
"""Files put in line in one step."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A job that was set aside, and why."""

    id: str
    reason: str
    error: str
    worker: str
    at_ms: int
    payload: bytes


class Queue(StoreClient):
    """The queues of one line of files, one for each priority."""

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        layout: Layout | None = None,
        options: QueueOptions | None = None,
    ) -> None:
        super().__init__(url)
        self.keys = FileKeys(layout)
        self._options = options = options or QueueOptions()
        self.intake = Intake(self._connected, self.keys, options)
        """The way in for producers, which look at the files themselves."""

    async def add(
        self, path: PathLike, *, priority: str | None = None, again: bool = False
    ) -> Job | None:
        """Put one file in line; None when it was put there before and has not changed since.

        Without a priority it gets the least urgent one; `again` puts it in line in any case.
        """
        if isinstance(path, list | tuple | set):
            raise InvalidInput(f"add takes one path, and add_many takes several, got {path!r}")
        (job,) = await self.add_many([path], priority=priority, again=again)
        return job

    async def add_many(
        self, paths: Iterable[PathLike], *, priority: str | None = None, again: bool = False
    ) -> list[Job | None]:
        """Put files in line; for each its job, or None when it was there before, unchanged.

        All of them are looked at before the first is put in line.
        """
        many: Any = paths
        if not isinstance(many, Iterable) or isinstance(many, str | bytes | os.PathLike):
            raise InvalidInput(f"add_many takes a list of paths, and add takes one, got {paths!r}")
        known = self.keys.layout.priorities
        chosen = known[-1] if priority is None else priority
        if chosen not in known:
            raise InvalidOption(f"priority must be one of {', '.join(known)}, got {priority!r}")
        files = await asyncio.to_thread(_looked_at, list(paths))
        now_ns = time.time_ns()
        entries = [entry(self.keys, file, priority=chosen, now_ns=now_ns) for file in files]
        added: list[Job | None] = []
        for first in range(0, len(entries), PER_CALL):
            added += await self._add(entries[first : first + PER_CALL], again=again)
        return added

    async def _add(self, entries: Sequence[Entry], *, again: bool) -> list[Job | None]:
        codes = (await self.intake.put(entries)).codes
        if again:
            # Without a digest nobody asks whether it is known; the digest is known by now.
            known = zip(entries, codes, strict=True)
            await self.intake.put([each._replace(digest=b"") for each, code in known if not code])
        return [
            jobs.read(each.payload) if again or code == NEW else None
            for each, code in zip(entries, codes, strict=True)
        ]

    async def stats(self) -> dict[str, int]:
        """How much is where, by the name of the list."""
        keys, counts = self.keys, dict[str, int]()
        redis: Any = (await self._connected()).redis
        with faults.translated():
            for queue, scheduled in zip(keys.lanes[::2], keys.lanes[1::2], strict=True):
                counts[queue] = await redis.llen(queue)
                counts[scheduled] = await redis.zcard(scheduled)
            for worker in sorted(await redis.smembers(keys.workers)):
                processing = keys.of(worker.decode()).processing
                counts[processing] = await redis.llen(processing)
            counts[keys.handover] = await redis.xlen(keys.handover)
            counts[keys.completed] = await redis.llen(keys.completed)
            counts[keys.dead_letter] = await redis.llen(keys.dead_letter)
        return counts

    async def unregistered(self) -> dict[str, int]:
        """What is in lists of workers that nobody registered; looks at all keys of the database.

        The reaper of a running worker finds them, too, and takes back what is in them.
        """
        redis: Any = (await self._connected()).redis
        counts: dict[str, int] = {}
        async for worker in orphans.everywhere(redis, self.keys):
            with faults.translated():
                if not await redis.sismember(self.keys.workers, worker):
                    processing = self.keys.of(worker).processing
                    counts[processing] = await redis.llen(processing)
        return counts

    async def forecast(self, priority: str) -> Forecast:
        """What history says of a priority: how it did, when it is done, how many it asks for.

        `waystation pipeline run` works it out; what is not fresh is None.
        """
        queues = self.keys.layout.queues
        if priority not in queues:
            raise InvalidOption(f"wanted one of {', '.join(queues)}, got {priority!r}")
        client = (await self._connected()).hot
        return await forecasts.forecast(client, queues[priority], line=Line.FILES)

    async def prometheus_text(self) -> str:
        """The line in numbers, as Prometheus reads them, and what history advises beside them."""
        queues = self.keys.layout.queues
        each_forecast = {queues[priority]: await self.forecast(priority) for priority in queues}
        counts = await self.stats()
        shared = (*self.keys.lanes, self.keys.handover, self.keys.completed, self.keys.dead_letter)
        places = {name: counts.pop(name) for name in shared}
        # Workers come and go, and each would leave a series behind.
        places["processing"] = sum(counts.values())
        return prometheus.as_text(Line.FILES, places, each_forecast)

    async def peek(self, queue: str, count: int = 10) -> list[Job | bytes]:
        """The next jobs of a list, the next to run first; bytes where something is no job."""
        return [_job_or_bytes(raw) for raw in await self.payloads(queue, count)]

    async def payloads(self, queue: str, count: int = 10) -> list[bytes]:
        """The same as they are in Redis, byte for byte."""
        at_least("count", count, 1)
        if queue in ("handover", self.keys.handover):
            page = await handover.read((await self._connected()).redis, self.keys)
            return [entry.raw for entry in page[:count]]
        lists = self._lists()
        key = lists.get(queue, queue)
        if key not in lists.values():
            wanted = ", ".join((*lists, "handover"))
            raise InvalidOption(f"wanted one of {wanted}, or its key, got {queue!r}")
        redis: Any = (await self._connected()).redis
        with faults.translated():
            raws: list[bytes] = await redis.lrange(key, -count, -1)
        return raws[::-1]

    async def dead_letters(self, count: int = 100) -> list[DeadLetter]:
        """What is set aside, the oldest first."""
        redis: Any = (await self._connected()).redis
        with faults.translated():
            raws: list[bytes] = await redis.lrange(self.keys.dead_letter, -count, -1)
            if not raws:
                return []
            ids = [_id_of(raw) for raw in raws]
            known: list[bytes | None] = await redis.hmget(self.keys.dead_letter_meta, ids)
        letters = zip(ids, known, raws, strict=True)
        return [_letter(*letter) for letter in reversed(list(letters))]

    async def requeue(self, most: int | None = None) -> int:
        """Put dead letters back in line, the oldest first; how many."""
        if most is not None:
            at_least("most", most, 0)
        moved, skipped = 0, 0
        store = await self._connected()
        redis: Any = store.redis
        while most is None or moved < most:
            want = 100 if most is None else min(100, most - moved)
            with faults.translated():
                last = -1 - skipped
                raws: list[bytes] = await redis.lrange(self.keys.dead_letter, last - want + 1, last)
            if not raws:
                return moved
            letters = [self._fresh(raw) for raw in reversed(raws)]
            good = [letter for letter in letters if letter]
            # What is no job would only come back; it stays where it is.
            skipped += len(raws) - len(good)
            moved += await scripts.requeue(
                store.hot,
                self.keys,
                now=SERVER_TIME,
                events_cap=self._options.events_max_len,
                letters=[part for letter in good for part in letter],
            )
        return moved

    async def purge_dead_letters(self) -> int:
        """Throw everything away that is set aside; how many."""
        thrown = 0
        store = await self._connected()
        while True:
            count = await scripts.purge(
                store.hot,
                self.keys,
                now=SERVER_TIME,
                events_cap=self._options.events_max_len,
                most=100,
                queue=self.keys.dead_letter,
            )
            thrown += count
            if not count:
                return thrown

    def _fresh(self, raw: bytes) -> tuple[bytes, str, int, bytes] | None:
        try:
            job = jobs.read(raw)
        except Malformed:
            return None
        lane = self.keys.lane_of(job.origin_queue, job.priority)
        return raw, job.id, lane, jobs.tried_again(raw, 0, self.keys.queues[lane - 1])

    def _lists(self) -> dict[str, str]:
        keys = self.keys
        ends = {"completed": keys.completed, "dead_letter": keys.dead_letter}
        return {**ends, **keys.layout.queues}


def _looked_at(paths: Sequence[PathLike]) -> list[Found]:
    return [looked_at(path) for path in paths]


def _job_or_bytes(raw: bytes) -> Job | bytes:
    try:
        return jobs.read(raw)
    except Malformed:
        return raw


def _id_of(raw: bytes) -> str:
    found = _job_or_bytes(raw)
    return found.id if isinstance(found, Job) else jobs.name_of(raw)


def _letter(id: str, meta: bytes | None, raw: bytes) -> DeadLetter:
    known: Mapping[str, Any] = codec.decode(meta) if meta else {}
    return DeadLetter(
        id=id,
        reason=str(known.get("reason", "")),
        error=str(known.get("error", "")),
        worker=str(known.get("worker", "")),
        at_ms=int(known.get("at", 0)),
        payload=raw,
    )
