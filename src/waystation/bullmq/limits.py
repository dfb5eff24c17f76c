"""What holds a queue back: pauses, and limits that all its workers share."""

from typing import Any

import msgspec

from waystation.bullmq.job_steps import hold_back
from waystation.bullmq.redis import queue_scripts
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.redis.commands import ask, ask_all
from waystation.core.options import at_least

PUT_BACK_AT_ONCE = 7000
"""Ids that BullMQ 5 has set aside are put back so many in one step."""


class Limit(msgspec.Struct, frozen=True):
    """How many jobs may start in a stretch of time, over all workers of the queue."""

    max: int
    duration: int
    """Milliseconds."""


class Limits(QueueClient):
    """The limits of a queue; they bind workers of every kind, wherever they run."""

    async def pause(self) -> None:
        """Hand out nothing until the queue is resumed; what is active goes on."""
        await queue_scripts.pause(*await self._at_hand())

    async def resume(self) -> None:
        """Hand out jobs again."""
        client, keys = await self._at_hand()
        while await queue_scripts.resume(client, keys, most=PUT_BACK_AT_ONCE):
            pass

    async def is_paused(self) -> bool:
        """Whether nothing is handed out until somebody resumes the queue."""
        client, keys = await self._at_hand()
        return bool(await ask(client, "HEXISTS", keys.meta, "paused"))

    async def set_global_concurrency(self, concurrency: int) -> None:
        """Let at most so many jobs be active at once, over all workers."""
        await self._set(concurrency=at_least("concurrency", concurrency, 1))

    async def get_global_concurrency(self) -> int | None:
        """How many jobs may be active at once; None when there is no limit."""
        [concurrency] = await self._get("concurrency")
        return concurrency

    async def remove_global_concurrency(self) -> None:
        """Let any number of jobs be active."""
        await self._unset("concurrency")

    async def set_global_rate_limit(self, max: int, duration: int) -> None:
        """Let at most so many jobs start in that many milliseconds, over all workers."""
        await self._set(max=at_least("max", max, 1), duration=at_least("duration", duration, 1))

    async def get_global_rate_limit(self) -> Limit | None:
        """How many jobs may start in which time; None when there is no limit."""
        max, duration = await self._get("max", "duration")
        return None if max is None or duration is None else Limit(max, duration)

    async def remove_global_rate_limit(self) -> None:
        """Let any number of jobs start."""
        await self._unset("max", "duration")

    async def rate_limit(self, ms: int) -> None:
        """Let no job start for so many milliseconds, wherever a rate limit is set."""
        await hold_back(*await self._at_hand(), ms)

    async def rate_limit_ttl(self, max: int | None = None) -> int:
        """Milliseconds during which no job may start; 0 or less when one may.

        Without `max` the limit of the queue counts and, if it has none, whatever was counted.
        """
        client, keys = await self._at_hand()
        return await queue_scripts.rate_limit_ttl(
            client, keys, max="" if max is None else at_least("max", max, 1)
        )

    async def remove_rate_limit_key(self) -> bool:
        """Let jobs start again before the time of the rate limit is over."""
        client, keys = await self._at_hand()
        return bool(await ask(client, "DEL", keys.limiter))

    async def is_maxed(self) -> bool:
        """Whether as many jobs are active as may be."""
        client, keys = await self._at_hand()
        concurrency, active = await ask_all(
            client, ("HGET", keys.meta, "concurrency"), ("LLEN", keys.active)
        )
        return concurrency is not None and active >= int(concurrency)

    async def _set(self, **fields: int) -> None:
        client, keys = await self._at_hand()
        pairs = [part for pair in fields.items() for part in pair]
        await ask(client, "HSET", keys.meta, *pairs)

    async def _get(self, *fields: str) -> list[int | None]:
        client, keys = await self._at_hand()
        found: list[Any] = await ask(client, "HMGET", keys.meta, *fields)
        return [None if value is None else int(value) for value in found]

    async def _unset(self, *fields: str) -> None:
        client, keys = await self._at_hand()
        await ask(client, "HDEL", keys.meta, *fields)
