"""The spec to the letter and ours, behind the same few verbs."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

from redis.crc import key_slot

from tests.files.hands import Hands
from tests.files.literal.worker import COMPLETED, DEAD_LETTER, LiteralWorker, literal_reap
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Settled
from waystation.files.job import Job
from waystation.files.redis import scripts

WORKER = "w1"


class System(Protocol):
    """One line of files with one worker, which has one pair of hands."""

    hands: Hands

    async def put(self, id: str, *, priority: str = "low") -> None: ...
    async def fetch(self) -> str | None: ...
    async def complete(self, id: str) -> None: ...
    async def fail(self, id: str) -> None: ...
    async def reap(self) -> int: ...
    async def dead_letter(self) -> Mapping[str, Any]:
        """What is told about the one job that was set aside."""
        ...

    def slots(self) -> set[int]:
        """The cluster's slots that one fetch touches."""
        ...


class Literal:
    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self._held: dict[str, bytes] = {}

    @property
    def worker(self) -> LiteralWorker:
        made = LiteralWorker(self.hands.redis, WORKER, max_retries=self.hands.options.max_retries)
        made.processing = self.hands.keys.of(WORKER).processing
        return made

    async def put(self, id: str, *, priority: str = "low") -> None:
        """The schema has these fields and no others."""
        job = {
            "id": id, "filepath": f"/{id}", "filesize": 0, "priority": priority, "retries": 0,
            "creation_time": "2026-01-01T00:00:00.000000000Z", "trace_id": "", "span_id": "",
        }  # fmt: skip
        queue = self.hands.keys.layout.queues[priority]
        await self.hands.redis.lpush(queue, json.dumps(job))

    async def fetch(self) -> str | None:
        payload = await self.worker.fetch()
        if payload is None:
            return None
        id = json.loads(payload)["id"]
        self._held[id] = payload
        return id

    async def complete(self, id: str) -> None:
        await self.worker.complete(self._held.pop(id))

    async def fail(self, id: str) -> None:
        """`min(base*2^(n-1), max)`, and then requeue: the worker waits, and time goes by."""
        payload = self._held.pop(id)
        await self.hands.clock.advance(
            self.hands.options.delay_ms(json.loads(payload)["retries"] + 1) / 1000
        )
        await self.worker.fail(payload)

    async def reap(self) -> int:
        return await literal_reap(self.hands.redis, heartbeat="worker:hb:{}")

    async def dead_letter(self) -> Mapping[str, Any]:
        (raw,) = await self.hands.redis.lrange(DEAD_LETTER, 0, -1)
        return json.loads(raw)

    def slots(self) -> set[int]:
        worker = self.worker
        keys = (*self.hands.keys.queues, worker.processing, worker.heartbeat, COMPLETED)
        return {key_slot(key.encode()) for key in keys}


class Ours:
    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self._held: dict[str, Claim[Job]] = {}

    @property
    def _source(self) -> Any:
        made = self.hands.sources
        return made[0] if made else self.hands.source(worker=WORKER)

    async def put(self, id: str, *, priority: str = "low") -> None:
        await self.hands.add(f"/{id}", priority=priority, id=id)

    async def fetch(self) -> str | None:
        claims = (await self._source.settle([], claim=1)).claims
        self._held.update((claim.id, claim) for claim in claims)
        return claims[0].id if claims else None

    async def complete(self, id: str) -> None:
        await self._source.settle([Settled(self._held.pop(id), Done())], claim=0)

    async def fail(self, id: str) -> None:
        failed = Settled(self._held.pop(id), Failed(RuntimeError("no")))
        await self._source.settle([failed], claim=0)

    async def reap(self) -> int:
        return await self.hands.reaper().reap()

    async def dead_letter(self) -> Mapping[str, Any]:
        keys, redis = self.hands.keys, self.hands.redis
        (raw,) = await redis.lrange(keys.dead_letter, 0, -1)
        job = json.loads(raw)
        return {**job, **json.loads(await redis.hget(keys.dead_letter_meta, job["id"]))}

    def slots(self) -> set[int]:
        keys = self.hands.keys.of(WORKER)
        named = [getattr(keys, name) for name in scripts.settle.header.keys]
        return {key_slot(key.encode()) for key in (*named, *keys.lanes)}


async def blocked_while(system: System) -> tuple[str | None, bool]:
    """Fetch, and tell whether the worker's connection was seen to wait in the meantime."""
    redis, was_blocked = system.hands.redis, False
    fetching = asyncio.create_task(system.fetch())
    while not fetching.done():
        clients = await redis.info("clients")
        was_blocked = was_blocked or clients["blocked_clients"] > 0
    return await fetching, was_blocked
