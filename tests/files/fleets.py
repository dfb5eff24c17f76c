"""A second fleet in the same database, apart by the keys that the configuration names."""

from typing import Any

from waystation.files import job as jobs
from waystation.files.options import Layout
from waystation.files.redis.keys import FileKeys

APART = Layout(
    queues={"high": "fleet2:high", "low": "fleet2:low"},
    processing_list_pattern="fleet2:worker:%s:processing",
    heartbeat_key_pattern="fleet2:hb:%s",
    completed_list="fleet2:completed",
    dead_letter_list="fleet2:dead",
    rate_limit_key="fleet2:rate",
)
NO_LONGER_MS = 3_600_000


async def furnish(redis: Any, layout: Layout = APART) -> dict[bytes, bytes]:
    """Put something into every place of the fleet; its census."""
    keys = FileKeys(layout)
    raws = [
        jobs.write(f"/two/{name}", 1, priority="low", queue=keys.queues[1], now_ns=0, id=name)[1]
        for name in ("waits", "later", "odd", "done", "dead", "held", "left")
    ]
    waits, later, odd, done, dead, held, left = raws
    async with redis.pipeline() as pipe:
        pipe.lpush(keys.queues[1], waits)
        pipe.zadd(keys.lanes[3], {later: 1})
        pipe.xadd(keys.unmatched, {"job": odd, "lane": 2}, id="1-1")
        pipe.lpush(keys.completed, done)
        pipe.lpush(keys.dead_letter, dead)
        pipe.hset(keys.dead_letter_meta, "dead", '{"reason":"VANISHED"}')
        pipe.sadd(keys.workers, "silent", "alive")
        pipe.lpush(keys.of("silent").processing, held)
        pipe.lpush(keys.of("unknown").processing, left)
        pipe.set(keys.of("alive").heartbeat, '{"ts":1,"handlers":["**/*"]}', px=NO_LONGER_MS)
        pipe.sadd(keys.seen, b"digest")
        pipe.pexpire(keys.seen, NO_LONGER_MS)
        pipe.xadd(keys.events, {"event": "added", "subject": "waits"}, id="1-1")
        await pipe.execute()
    return await census(redis, layout)


async def census(redis: Any, layout: Layout = APART) -> dict[bytes, bytes]:
    """Every key of the fleet, and what it holds."""
    start = layout.queues["high"].rpartition(":")[0]
    names = sorted([key async for key in redis.scan_iter(match=f"{start}:*", count=1000)])
    async with redis.pipeline() as pipe:
        for name in names:
            pipe.dump(name)
        return dict(zip(names, await pipe.execute(), strict=True))
