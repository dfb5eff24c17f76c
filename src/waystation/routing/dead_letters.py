"""The jobs that failed for good: to look at, try again or remove."""

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from waystation.core import codec
from waystation.core.errors import Malformed
from waystation.core.store import faults
from waystation.core.store.script import Client, texts
from waystation.routing.job import rewritten
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.results import DeadLetter

PER_CALL = 500


class DeadLetters:
    """The dead letter list of one namespace."""

    def __init__(self, client: Client, keys: RoutingKeys, *, now: Callable[[], str | int]) -> None:
        self._client = client
        self._keys = keys
        self._now = now

    async def __aiter__(self) -> AsyncIterator[DeadLetter]:
        """Every dead job with its reason, the newest first."""
        first = 0
        while ids := await self._ids(first):
            with faults.translated():
                found = await self._client.execute_command("HMGET", self._keys.meta, *ids)
            for id, meta in zip(texts(ids), found, strict=True):
                yield _letter(id, meta)
            first += len(ids)

    async def requeue(self, *ids: str) -> int:
        """Let dead jobs wait again with fresh attempts; how many did."""
        done = 0
        for first in range(0, len(ids), PER_CALL):
            done += await self._requeue(ids[first : first + PER_CALL])
        return done

    async def requeue_all(self, *, error: str | None = None) -> int:
        """Let all dead jobs wait again, or those that died of one error, oldest first."""
        wanted = [each.id async for each in self if error is None or each.error.name == error]
        return await self.requeue(*reversed(wanted))

    async def purge(self, *ids: str) -> int:
        """Remove dead jobs for good; how many there were."""
        done = 0
        for first in range(0, len(ids), PER_CALL):
            done += await scripts.purge(
                self._client,
                self._keys,
                namespace=self._keys.namespace,
                now=self._now(),
                ids=ids[first : first + PER_CALL],
            )
        return done

    async def purge_all(self, *, error: str | None = None) -> int:
        """Remove all dead jobs, or those that died of one error."""
        wanted = [each.id async for each in self if error is None or each.error.name == error]
        return await self.purge(*wanted)

    async def _ids(self, first: int) -> list[bytes]:
        with faults.translated():
            return await self._client.execute_command(
                "LRANGE", self._keys.deadletter, first, first + PER_CALL - 1
            )

    async def _requeue(self, ids: Sequence[str]) -> int:
        with faults.translated():
            found = await self._client.execute_command(
                "MGET", *(self._keys.of(id).data for id in ids)
            )
        jobs: list[str | bytes] = []
        for id, data in zip(ids, found, strict=True):
            # What cannot be read cannot be run; it stays where it is, with its reason.
            if data is not None and (fresh := _with_fresh_attempts(data)) is not None:
                jobs += [id, fresh]
        if not jobs:
            return 0
        return await scripts.requeue(
            self._client,
            self._keys,
            namespace=self._keys.namespace,
            now=self._now(),
            jobs=jobs,
        )


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
