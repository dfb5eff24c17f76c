"""Limits: how many jobs of a queue may run at once, or start in a stretch of time."""

import math
from datetime import timedelta
from typing import Any

import msgspec

from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.client import Connect
from waystation.bullmq.redis.commands import block_for
from waystation.bullmq.terms import warn_of_milliseconds
from waystation.core.durations import Duration, milliseconds
from waystation.core.options import at_least, checked
from waystation.core.store.commands import ask, ask_all


class Limit(msgspec.Struct, frozen=True):
    """A rate limit: how many jobs may start in a stretch of time, over all workers of a queue."""

    max: int
    """How many jobs may start within `duration`."""
    duration: Duration
    """The time for which `max` jobs count."""

    def __post_init__(self) -> None:
        at_least("max of a limit", self.max, 1)
        milliseconds(self.duration, "duration of a limit", above=0)
        warn_of_milliseconds("duration of a limit", self.duration)

    @property
    def duration_ms(self) -> int:
        """The duration as the wire has it."""
        return max(1, milliseconds(self.duration))


@checked
class Limits:
    """The limits of a queue, which bind all its workers: `queue.limits`."""

    def __init__(self, connect: Connect) -> None:
        """Internal: a queue makes it."""
        self._connect = connect

    async def set_concurrency(self, concurrency: int) -> None:
        """Let at most so many jobs be active at once."""
        await self._set(concurrency=at_least("concurrency", concurrency, 1))

    async def get_concurrency(self) -> int | None:
        """How many jobs may be active at once; None when there is no limit."""
        [concurrency] = await self._get("concurrency")
        return concurrency

    async def remove_concurrency(self) -> None:
        """Remove the limit of active jobs."""
        await self._unset("concurrency")

    async def is_maxed(self) -> bool:
        """True when as many jobs are active as may be."""
        client, keys = await self._connect()
        concurrency, active = await ask_all(
            client, ("HGET", keys.meta, "concurrency"), ("LLEN", keys.active)
        )
        most = _limit(concurrency)
        return most is not None and active >= most

    async def set_rate_limit(self, max: int, duration: Duration) -> None:
        """Let at most `max` jobs start in this duration."""
        limit = Limit(max, duration)
        await self._set(max=limit.max, duration=limit.duration_ms)

    async def get_rate_limit(self) -> Limit | None:
        """The rate limit; None when there is none."""
        max, duration = await self._get("max", "duration")
        return None if max is None or duration is None else Limit(max, duration / 1000)

    async def remove_rate_limit(self) -> None:
        """Remove the rate limit."""
        await self._unset("max", "duration")

    async def rate_limit(self, duration: Duration) -> None:
        """Start no job for a while, where a rate limit is set."""
        await block_for(*await self._connect(), duration)

    async def rate_limit_ttl(self, max: int | None = None) -> timedelta:
        """How long no job may start; zero when one may.

        `max` is the limit to compare with; without it the queue's own counts and, if it has none,
        whatever was counted.
        """
        client, keys = await self._connect()
        ms = await scripts.rate_limit_ttl(
            client, keys, max="" if max is None else at_least("max", max, 1)
        )
        return timedelta(milliseconds=ms if ms > 0 else 0)

    async def reset_rate_limit(self) -> bool:
        """Let jobs start again at once; False when nothing held them back."""
        client, keys = await self._connect()
        return bool(await ask(client, "DEL", keys.limiter))

    async def _set(self, **fields: int) -> None:
        client, keys = await self._connect()
        pairs = [part for pair in fields.items() for part in pair]
        await ask(client, "HSET", keys.meta, *pairs)

    async def _get(self, *fields: str) -> list[int | None]:
        client, keys = await self._connect()
        found: list[Any] = await ask(client, "HMGET", keys.meta, *fields)
        return [_limit(value) for value in found]

    async def _unset(self, *fields: str) -> None:
        client, keys = await self._connect()
        await ask(client, "HDEL", keys.meta, *fields)


def _limit(text: bytes | None) -> int | None:
    """A limit as the scripts read it: whatever else another client has written there is none."""
    try:
        limit = math.floor(float(text or b""))
    except (ValueError, OverflowError):
        return None
    return limit if 1 <= limit <= 2**53 else None
