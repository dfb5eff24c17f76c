"""Fetch, heartbeat, completion and failure, command by command as the spec lists them."""

import json
from typing import Any

PROCESSING = "jobqueue:worker:{}:processing"
HEARTBEAT = "jobqueue:processing:worker:{}"
QUEUES = ("jobqueue:high_priority", "jobqueue:low_priority")
COMPLETED = "jobqueue:completed"
DEAD_LETTER = "jobqueue:dead_letter"


class LiteralWorker:
    def __init__(self, redis: Any, name: str, *, ttl: int = 5, max_retries: int = 3) -> None:
        self.redis = redis
        self.processing = PROCESSING.format(name)
        self.heartbeat = HEARTBEAT.format(name)
        self._ttl = ttl
        self._max_retries = max_retries

    async def move(self) -> bytes | None:
        """Loop priorities, BRPOPLPUSH each with a short timeout."""
        for queue in QUEUES:
            if payload := await self.redis.brpoplpush(queue, self.processing, 1):
                return payload
        return None

    async def beat(self, payload: bytes) -> None:
        """On fetch, SET heartbeat payload EX ttl; kept static."""
        await self.redis.set(self.heartbeat, payload, ex=self._ttl)

    async def fetch(self) -> bytes | None:
        payload = await self.move()
        if payload:
            await self.beat(payload)
        return payload

    async def complete(self, payload: bytes) -> None:
        """LPUSH completed; LREM processing; DEL heartbeat."""
        await self.redis.lpush(COMPLETED, payload)
        await self.redis.lrem(self.processing, 1, payload)
        await self.redis.delete(self.heartbeat)

    async def fail(self, payload: bytes) -> None:
        """Increment retries; requeue, or dead letter after max_retries."""
        job = json.loads(payload)
        job["retries"] += 1
        again = json.dumps(job)
        await self.redis.lrem(self.processing, 1, again)
        if job["retries"] > self._max_retries:
            await self.redis.lpush(DEAD_LETTER, payload)
        else:
            await self.redis.lpush(QUEUES[1], again)
        await self.redis.delete(self.heartbeat)


async def literal_reap(
    redis: Any, *, pages: int = 10_000, count: int = 1, heartbeat: str = HEARTBEAT
) -> int:
    """SCAN for processing lists; without a heartbeat, move the entry back to the queue."""
    cursor, moved = 0, 0
    for _ in range(pages):
        cursor, keys = await redis.scan(cursor, match="jobqueue:worker:*:processing", count=count)
        for key in keys:
            name = key.decode().split(":")[2]
            if await redis.exists(heartbeat.format(name)):
                continue
            while payload := await redis.rpop(key):
                await redis.lpush(json.loads(payload).get("origin_queue", QUEUES[1]), payload)
                moved += 1
        if cursor == 0:
            break
    return moved
