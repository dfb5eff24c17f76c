"""Dead letters: jobs that failed for good, with the reason of each."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import msgspec

from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.durations import possible_instant
from waystation.core.errors import Malformed
from waystation.core.options import at_least, checked
from waystation.core.store.connection import Store
from waystation.files import job as jobs
from waystation.files.job import Job
from waystation.files.options import QueueOptions
from waystation.files.redis import lists, scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.lists import Place

_PAGE = 100


class JobError(str):
    """What an error said, `ValueError: no`, with the same parts as in routing."""

    def __new__(cls, text: object = "") -> Self:
        """The text as it was stored."""
        return super().__new__(cls, text)

    @property
    def name(self) -> str:
        """Its class."""
        head, colon, _ = self.partition(": ")
        return head if colon and head.isidentifier() else ""

    @property
    def message(self) -> str:
        """Its message."""
        return self.removeprefix(f"{self.name}: ")


class DeadLetter(msgspec.Struct, frozen=True):
    """A job that failed for good, and why."""

    id: str
    """The id of the job."""
    reason: str
    """A value of `Reason`, such as `VANISHED`."""
    error: JobError
    """What the last attempt raised."""
    worker: str
    """The name of the worker that tried last."""
    failed_at: datetime | None
    """None for a letter that another program left without one."""
    payload: bytes
    """The job as it is in Redis."""
    attempts: int = 0
    """How many attempts there were."""

    @property
    def job(self) -> Job | None:
        """The job; None when the payload is no job."""
        return lists.read(self.payload)


@checked
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
        store = await self._connected()
        raws = await lists.page(store.redis, self._place, offset, at_least("limit", limit, 1))
        if not raws:
            return []
        ids = [_id_of(raw) for raw in raws]
        known = await store.ask("HMGET", self._keys.dead_letter_meta, *ids)
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

    async def retry_all(self, limit: int | None = None, *, error: str | None = None) -> int:
        """Put dead letters back into their queues, the oldest first; how many moved.

        `error` restricts it to those that failed with the error of that name.
        At most those that there are when it begins, each once. What is no job stays a dead
        letter, because it would fail again.
        """
        if limit is not None:
            at_least("limit", limit, 0)
        if error is not None:
            return await self.retry(*(await self._ids_of(error))[:limit])
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

    async def remove(self, *ids: str) -> int:
        """Delete these dead letters; how many there were."""
        wanted, removed = set(ids), 0
        found = [raw async for raw in self._each() if _id_of(raw) in wanted] if wanted else []
        for first in range(0, len(found), _PAGE):
            letters = [self._removal(raw) for raw in found[first : first + _PAGE]]
            there = await scripts.remove(
                (await self._connected()).hot,
                self._keys,
                now=SERVER_TIME,
                events_cap=self._options.events_max_len,
                jobs=[part for letter in letters for part in letter],
            )
            removed += sum(there)
        return removed

    async def purge(self, *, error: str | None = None) -> int:
        """Delete all dead letters that there are now, or those of one error; how many there were.

        `error` is the name of its class.
        """
        if error is not None:
            return await self.remove(*await self._ids_of(error))
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

    async def _ids_of(self, error: str) -> Sequence[str]:
        ids: list[str] = []
        offset = 0
        while page := await self.list(offset, _PAGE):
            ids += [letter.id for letter in page if letter.error.name == error]
            offset += len(page)
        return ids

    def _removal(self, raw: bytes) -> tuple[str | bytes | int, ...]:
        job = lists.read(raw)
        if job is None:
            return "failed", raw, jobs.poison_id(raw), len(self._keys.queues), 1, ""
        lane = self._keys.lane_of(job.origin_queue, job.priority)
        return "failed", raw, job.id, lane, job.attempt, ""

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
    known = _meta(meta or b"{}")
    at_ms, attempts = known.get("at"), known.get("attempt")
    return DeadLetter(
        id=id,
        reason=codec.text_of(known.get("reason", "")),
        error=JobError(known.get("error", "")),
        worker=codec.text_of(known.get("worker", "")),
        failed_at=possible_instant(at_ms) if isinstance(at_ms, int | float) and at_ms > 0 else None,
        payload=raw,
        attempts=attempts if isinstance(attempts, int) else 0,
    )


def _meta(raw: bytes) -> Mapping[str, Any]:
    # Another program may have written it.
    try:
        return codec.decode(raw, dict[str, Any])
    except Malformed:
        return {}
