"""Dead letters: jobs that failed for good, with the reason of each."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.durations import instant
from waystation.core.errors import Malformed
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.options import at_least
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.files import job as jobs
from waystation.files.job import Job
from waystation.files.options import QueueOptions
from waystation.files.redis import lists, scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.lists import Place

_PAGE = 100


class DeadLetter(msgspec.Struct, frozen=True):
    """A job that failed for good, and why."""

    id: str
    """The id of the job."""
    reason: str
    """A value of `Reason`, such as `VANISHED`."""
    error: str
    """The message of the last error."""
    worker: str
    """The name of the worker that tried last."""
    failed_at: datetime | None
    """None for a letter that another program left without one."""
    payload: bytes
    """The job as it is in Redis."""

    @property
    def job(self) -> Job | None:
        """The job; None when the payload is no job."""
        return lists.read(self.payload)


class DeadLetters:
    """The dead letters of a queue: `queue.dead_letters`."""

    def __init__(
        self, connected: Callable[[], Awaitable[Store]], keys: FileKeys, options: QueueOptions
    ) -> None:
        """Internal: a queue makes it."""
        self._connected = connected
        self._keys = keys
        self._options = options
        self._place = Place("failed", keys.dead_letter)

    async def list(self, offset: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters, the oldest first."""
        at_least("offset", offset, 0)
        redis: Any = (await self._connected()).redis
        raws = await lists.page(redis, self._place, offset, at_least("limit", limit, 1))
        if not raws:
            return []
        ids = [_id_of(raw) for raw in raws]
        with faults.translated():
            known: list[bytes | None] = await redis.hmget(self._keys.dead_letter_meta, ids)
        return [_letter(*each) for each in zip(ids, known, raws, strict=True)]

    async def count(self) -> int:
        """The number of dead letters."""
        return await lists.length((await self._connected()).redis, self._place)

    async def retry(self, *ids: str) -> int:
        """Put these dead letters back into their queues, attempts counted anew; how many moved."""
        wanted = set(ids)
        found = [raw async for raw in self._each() if _id_of(raw) in wanted] if wanted else []
        moved = 0
        for first in range(0, len(found), _PAGE):
            moved += (await self._retry(found[first : first + _PAGE]))[0]
        return moved

    async def retry_all(self, limit: int | None = None) -> int:
        """Put dead letters back into their queues, the oldest first; how many moved.

        At most those that there are when it begins, each once. What is no job stays a dead
        letter, because it would fail again.
        """
        if limit is not None:
            at_least("limit", limit, 0)
        redis: Any = (await self._connected()).redis
        # Those that fail again meanwhile come back to the list with the same bytes.
        left, moved, skipped, done = await self.count(), 0, 0, set[int]()
        while left and (limit is None or moved < limit):
            count = min(_PAGE, left, _PAGE if limit is None else limit - moved)
            raws = await lists.page(redis, self._place, skipped, count)
            fresh = [raw for raw in raws if hash(raw) not in done]
            back, unreadable = await self._retry(fresh)
            done.update(map(hash, fresh))
            moved += back
            skipped += unreadable + len(raws) - len(fresh)
            left = left - len(raws) if raws else 0
        return moved

    async def purge(self) -> int:
        """Delete all dead letters that there are now; how many there were."""
        deleted, left = 0, await self.count()
        store = await self._connected()
        while left > 0:
            count = await scripts.purge(
                store.hot,
                self._keys,
                now=SERVER_TIME,
                events_cap=self._options.events_max_len,
                most=min(_PAGE, left),
                queue=self._keys.dead_letter,
            )
            deleted += count
            left = left - count if count else 0
        return deleted

    async def _each(self) -> AsyncGenerator[bytes]:
        redis: Any = (await self._connected()).redis
        offset = 0
        while raws := await lists.page(redis, self._place, offset, _PAGE):
            for raw in raws:
                yield raw
            offset += len(raws)

    async def _retry(self, raws: Collection[bytes]) -> tuple[int, int]:
        """Move these back; how many were moved, and how many are no jobs."""
        letters = [self._fresh(raw) for raw in raws]
        good = [letter for letter in letters if letter]
        moved = await scripts.requeue(
            (await self._connected()).hot,
            self._keys,
            now=SERVER_TIME,
            events_cap=self._options.events_max_len,
            letters=[part for letter in good for part in letter],
        )
        return moved, len(letters) - len(good)

    def _fresh(self, raw: bytes) -> tuple[bytes, str, int, bytes] | None:
        job = lists.read(raw)
        if job is None:
            return None
        lane = self._keys.lane_of(job.origin_queue, job.priority)
        try:
            return raw, job.id, lane, jobs.with_retries(raw, 0, self._keys.queues[lane - 1])
        except Malformed:
            return None


def _id_of(raw: bytes) -> str:
    job = lists.read(raw)
    return job.id if job else jobs.poison_id(raw)


def _letter(id: str, meta: bytes | None, raw: bytes) -> DeadLetter:
    known: Mapping[str, Any] = codec.decode(meta) if meta else {}
    at_ms = int(known.get("at", 0))
    return DeadLetter(
        id=id,
        reason=str(known.get("reason", "")),
        error=str(known.get("error", "")),
        worker=str(known.get("worker", "")),
        failed_at=instant(at_ms) if at_ms else None,
        payload=raw,
    )
