"""How files get in, and how people look after what is there."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.events import Line
from waystation.core.options import at_least
from waystation.core.store import advice, faults, numbers
from waystation.core.store.advice import Outlook
from waystation.core.store.attached import Attached
from waystation.core.store.connection import Store
from waystation.core.telemetry.traces import Ids

from . import job as jobs
from . import orphans, scripts
from .job import Job
from .keys import FileKeys
from .options import Layout
from .scan import Found
from .scripts import SERVER_TIME, Added

DAY_S = 86_400.0


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept about files that were put in line."""

    remember_s: float = 30 * DAY_S
    """How long, at least, a file that was put in line is not put in line again unchanged."""
    events_max_len: int = 10_000


class DeadLetter(msgspec.Struct, frozen=True):
    """A job that was set aside, and why."""

    id: str
    reason: str
    error: str
    worker: str
    at_ms: int
    payload: bytes


Entry: TypeAlias = tuple[bytes, int, str, bytes, str, int]
"""A file as the script that puts it in line takes it."""


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
    return (jobs.digest(*file), lane, id, payload, path, file.size)


def burst_of(rate: int) -> int:
    """What may be put in line at once: a twentieth of a second's worth, so that a second holds."""
    return max(1, rate // 20)


class Queue(Attached):
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
        self._options = options or QueueOptions()

    async def add(self, entries: Sequence[Entry], *, rate: int = 0) -> Added:
        """Put files in line that were not there before, as far as the rate a second allows."""
        if not entries:
            return Added([], 0)
        return await scripts.add(
            (await self._opened()).durable,
            self.keys,
            now=SERVER_TIME,
            events_cap=self._options.events_max_len,
            remember_ms=self._remember_ms,
            rate=rate,
            burst=burst_of(rate),
            jobs=[part for entry in entries for part in entry],
        )

    async def known(self, files: Sequence[Found]) -> list[bool]:
        """Tell which of these files were put in line before."""
        if not files:
            return []
        digests = [jobs.digest(*file) for file in files]
        hot = (await self._opened()).hot
        known = await scripts.recall(hot, self.keys, remember_ms=self._remember_ms, digests=digests)
        return [code == 1 for code in known]

    async def stats(self) -> dict[str, int]:
        """How much is where, by the name of the list."""
        keys, counts = self.keys, dict[str, int]()
        redis: Any = (await self._opened()).redis
        with faults.told():
            for queue, scheduled in zip(keys.lanes[::2], keys.lanes[1::2], strict=True):
                counts[queue] = await redis.llen(queue)
                counts[scheduled] = await redis.zcard(scheduled)
            for worker in sorted(await redis.smembers(keys.workers)):
                processing = keys.of(worker.decode()).processing
                counts[processing] = await redis.llen(processing)
            counts[keys.completed] = await redis.llen(keys.completed)
            counts[keys.dead_letter] = await redis.llen(keys.dead_letter)
        return counts

    async def unregistered(self) -> dict[str, int]:
        """What is in lists of workers that nobody registered; looks at all keys of the database.

        The reaper of a running worker finds them, too, and takes back what is in them.
        """
        redis: Any = (await self._opened()).redis
        counts: dict[str, int] = {}
        async for worker in orphans.everywhere(redis, self.keys):
            with faults.told():
                if not await redis.sismember(self.keys.workers, worker):
                    processing = self.keys.of(worker).processing
                    counts[processing] = await redis.llen(processing)
        return counts

    async def outlook(self, priority: str) -> Outlook:
        """What history says of a priority: how it did, when it is done, how many it asks for.

        `waystation pipeline run` works it out; what is not fresh is None.
        """
        queues = self.keys.layout.queues
        if priority not in queues:
            raise InvalidOption(f"wanted one of {', '.join(queues)}, got {priority!r}")
        client = (await self._opened()).hot
        return await advice.outlook(client, queues[priority], line=Line.FILES)

    async def prometheus_text(self) -> str:
        """The line in numbers, as Prometheus reads them, and what history advises beside them."""
        queues = self.keys.layout.queues
        outlooks = {queues[priority]: await self.outlook(priority) for priority in queues}
        counts = await self.stats()
        shared = (*self.keys.lanes, self.keys.completed, self.keys.dead_letter)
        places = {name: counts.pop(name) for name in shared}
        # Workers come and go, and each would leave a series behind.
        places["processing"] = sum(counts.values())
        return numbers.as_text(Line.FILES, places, outlooks)

    async def peek(self, queue: str, count: int = 10) -> list[Job | bytes]:
        """The next jobs of a list, the next to run first; bytes where something is no job."""
        return [_job_or_bytes(raw) for raw in await self.payloads(queue, count)]

    async def payloads(self, queue: str, count: int = 10) -> list[bytes]:
        """The same as they are in Redis, byte for byte."""
        at_least("count", count, 1)
        lists = self._lists()
        key = lists.get(queue, queue)
        if key not in lists.values():
            raise InvalidOption(f"wanted one of {', '.join(lists)}, or its key, got {queue!r}")
        redis: Any = (await self._opened()).redis
        with faults.told():
            raws: list[bytes] = await redis.lrange(key, -count, -1)
        return raws[::-1]

    async def dead_letters(self, count: int = 100) -> list[DeadLetter]:
        """What is set aside, the oldest first."""
        redis: Any = (await self._opened()).redis
        with faults.told():
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
        store = await self._opened()
        redis: Any = store.redis
        while most is None or moved < most:
            want = 100 if most is None else min(100, most - moved)
            with faults.told():
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
        store = await self._opened()
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

    @property
    def _remember_ms(self) -> int:
        return round(self._options.remember_s * 1000)


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
