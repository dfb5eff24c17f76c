"""Many jobs at once, at a store that refuses some of them."""

import pytest
from redis.asyncio import Redis

from waystation.bullmq import Queue
from waystation.core.errors import StoreBusy
from waystation.core.store.embedded import Ephemeral


async def script_calls(redis: Redis) -> int:
    stats = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


async def test_no_lot_is_sent_after_one_that_was_refused(own_server: Ephemeral) -> None:
    """Sent again later, the refused ones would stand behind those that were taken."""
    async with (
        Redis.from_url(own_server.url, protocol=2) as redis,
        Queue("mail", own_server.url) as queue,
    ):
        await queue.add("send")
        await redis.config_set("min-replicas-to-write", 1)
        before = await script_calls(redis)
        with pytest.raises(StoreBusy) as refused:
            await queue.add_many([("send", number) for number in range(1000)])
        assert await script_calls(redis) - before == 1
        assert "at least 0 of 1000 jobs" in "".join(refused.value.__notes__)
        await redis.config_set("min-replicas-to-write", 0)
        await queue.add_many([("send", number) for number in range(1000)])
        assert await queue.count() == 1001
