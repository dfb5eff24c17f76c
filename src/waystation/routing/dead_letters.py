"""Dead letters: jobs that failed for good, with the reason of each."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from waystation.core import codec
from waystation.core.errors import Malformed
from waystation.core.options import at_least, checked
from waystation.core.store.connection import Store
from waystation.core.store.script import texts
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.redis.wire import rewritten
from waystation.routing.results import DeadLetter, foreign_letter

_PER_CALL = 500


@checked
class DeadLetters:
    """The dead letters of a queue: `queue.dead_letters`; iterating gives the newest first."""

    def __init__(
        self,
        connected: Callable[[], Awaitable[Store]],
        keys: RoutingKeys,
        *,
        now: Callable[[], str | int],
    ) -> None:
        """Internal: a queue makes it."""
        self._connected = connected
        self._keys = keys
        self._now = now

    async def __aiter__(self) -> AsyncIterator[DeadLetter]:
        offset = 0
        while page := await self._page(offset, offset + _PER_CALL - 1):
            for letter in page:
                yield letter
            offset += len(page)

    async def list(self, offset: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters, the oldest first."""
        # The newest are at the left end of the list.
        last = -1 - at_least("offset", offset, 0)
        return [*reversed(await self._page(last - at_least("limit", limit, 1) + 1, last))]

    async def count(self) -> int:
        """The number of dead letters."""
        return await (await self._connected()).ask("LLEN", self._keys.deadletter)

    async def retry(self, *ids: str) -> int:
        """Run these jobs again, with all their attempts; how many there were.

        One that never ran, because a job it depends on was cancelled or removed, waits for its
        dependencies again, and stays a dead letter while one of them is unknown.
        """
        done = 0
        for first in range(0, len(ids), _PER_CALL):
            done += await self._retry(ids[first : first + _PER_CALL])
        return done

    async def retry_all(self, limit: int | None = None, *, error: str | None = None) -> int:
        """Run dead letters again, the oldest first; how many there were.

        `error` restricts it to those that failed with the error of that name. What cannot be read
        stays a dead letter, because it would fail again.
        """
        ids = await self._ids_of(error)
        return await self.retry(*(ids if limit is None else ids[: at_least("limit", limit, 0)]))

    async def remove(self, *ids: str) -> int:
        """Delete these dead letters; how many there were."""
        done = 0
        client = (await self._connected()).hot
        for first in range(0, len(ids), _PER_CALL):
            done += await scripts.purge(
                client, self._keys, now=self._now(), ids=ids[first : first + _PER_CALL]
            )
        return done

    async def purge(self, *, error: str | None = None) -> int:
        """Delete all dead letters, or those of one error; how many there were."""
        return await self.remove(*await self._ids_of(error))

    async def _ids_of(self, error: str | None) -> Sequence[str]:
        """The ids of dead letters, the oldest first."""
        found = [each.id async for each in self if error is None or each.error.name == error]
        return found[::-1]

    async def _page(self, first: int, last: int) -> Sequence[DeadLetter]:
        """Dead letters, the newest first."""
        store = await self._connected()
        ids = await store.ask("LRANGE", self._keys.deadletter, first, last)
        if not ids:
            return ()
        found = await store.ask("HMGET", self._keys.meta, *ids)
        names = texts(ids)
        letters = [_letter(id, meta) for id, meta in zip(names, found, strict=True)]
        for place in [at for at, meta in enumerate(found) if meta is None]:
            # Another client has put it there, and has said why in the job and its result.
            keys = self._keys.of(names[place])
            job = await store.ask("MGET", keys.data, keys.result)
            letters[place] = foreign_letter(names[place], *job)
        return letters

    async def _retry(self, ids: Sequence[str]) -> int:
        store = await self._connected()
        found = await store.ask("MGET", *(self._keys.of(id).data for id in ids))
        jobs: list[str | bytes] = []
        for id, data in zip(ids, found, strict=True):
            if data is not None and (fresh := _with_fresh_attempts(data)) is not None:
                jobs += [id, fresh]
        if not jobs:
            return 0
        return await scripts.requeue(store.hot, self._keys, now=self._now(), jobs=jobs)


def _with_fresh_attempts(data: bytes) -> bytes | None:
    try:
        return rewritten(data, attempts=0)
    except Malformed:
        return None


def _letter(id: str, meta: bytes | None) -> DeadLetter:
    try:
        return msgspec.structs.replace(codec.decode(meta or b"{}", DeadLetter), id=id)
    except Malformed:
        return DeadLetter(id=id)
