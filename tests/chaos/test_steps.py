"""Steps while workers are killed every second and the store is restarted: each is done once."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.chaos.fleet import Fleet
from tests.support.patience import limit
from waystation.bullmq import JobOptions, NewJob, Queue
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.store import embedded
from waystation.core.store.connection import StoreOptions, connect
from waystation.core.store.embedded import Ephemeral

KEYS = QueueKeys("chaos")
STEPS = 20
JOBS = int(os.environ.get("WAYSTATION_CHAOS_STEPS", "20000")) // STEPS
"""`WAYSTATION_CHAOS_STEPS=1000000` is the full size."""
RESTART_EVERY = 5
ENDS_WITHIN_S = 60 + JOBS * STEPS / 50
"""Fifty steps a second are few on any machine."""


async def break_things(server: Ephemeral, fleet: Fleet, redis: "Redis") -> int:
    """Kill a worker every second, and the store now and then, until all jobs have ended."""
    rounds = 0
    while await ended(redis) < JOBS:
        await asyncio.sleep(1)
        before = await events(redis)
        while await events(redis) == before and await ended(redis) < JOBS:
            # On a busy machine workers need longer than that to get going.
            await fleet.refill()
            await asyncio.sleep(0.1)
        rounds += 1
        await fleet.kill_one()
        if rounds % RESTART_EVERY == 0:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)
        await fleet.refill()
    return rounds


async def ended(redis: "Redis") -> int:
    return await redis.zcard(KEYS.completed) + await redis.zcard(KEYS.failed)


async def events(redis: "Redis") -> int:
    return await redis.xlen(KEYS.events)


@pytest.mark.long
@pytest.mark.timeout(60 + ENDS_WITHIN_S)
async def test_no_step_is_accepted_twice_or_skipped_whatever_breaks() -> None:
    rules = {"appendonly": "yes", "appendfsync": "always"}
    options = JobOptions(attempts=1000, backoff=None)
    with embedded.ephemeral(rules) as server:
        async with await connect(server.url, StoreOptions(call_timeout=5.0)) as store:
            await store.redis.hset(KEYS.meta, "opts.maxLenEvents", 10 * JOBS * STEPS)  # pyright: ignore
            async with Queue("chaos", store) as queue:
                await queue.add_many(
                    [NewJob("steps", {"steps": STEPS}, options) for _ in range(JOBS)]
                )
        async with (
            asyncio.timeout(limit(ENDS_WITHIN_S)),
            Redis.from_url(server.url, protocol=2) as redis,
            Fleet(server.url, "chaos", size=3, concurrency=20) as fleet,
        ):
            began = time.monotonic()
            rounds = await break_things(server, fleet, redis)
            took_s = time.monotonic() - began
            await fleet.stop()
            accepted = await accepted_steps(redis)
            results = await results_of_all(redis)
            counts = [await redis.zcard(KEYS.completed), await redis.zcard(KEYS.failed)]
            left = [
                await redis.exists(key)
                for key in (KEYS.wait, KEYS.active, KEYS.delayed, KEYS.prioritized)
            ]
    print(
        f"{len(accepted):,} steps of {JOBS:,} jobs in {took_s:.0f} s: {rounds} workers killed, "
        f"{rounds // RESTART_EVERY} restarts of the store"
    )
    assert fleet.last_words == []
    assert rounds > 0
    assert counts == [JOBS, 0]
    assert left == [0, 0, 0, 0]
    assert len(accepted) == JOBS * STEPS
    assert set(accepted.values()) == {1}
    assert results == {b"%d" % STEPS: JOBS}


async def results_of_all(redis: "Redis") -> Counter[bytes]:
    """How often each result was returned: a job adds up what its steps returned."""
    results: Counter[bytes] = Counter()
    ids: Any = await redis.zrange(KEYS.completed, 0, -1)
    for some in batched(ids, 1000):
        pipeline = redis.pipeline(transaction=False)
        for id in some:
            pipeline.hget(KEYS.of(id.decode()).job, "returnvalue")
        results.update(await pipeline.execute())
    return results


def batched(ids: list[bytes], size: int) -> Iterator[list[bytes]]:
    return (ids[first : first + size] for first in range(0, len(ids), size))


async def accepted_steps(redis: "Redis") -> Counter[tuple[bytes, bytes]]:
    """How often each step of each job was stored, by the queue's events."""
    accepted: Counter[tuple[bytes, bytes]] = Counter()
    place = "-"
    while True:
        entries: Any = await redis.xrange(KEYS.events, place, "+", count=10_000)
        for id, entry in entries:
            place = f"({id.decode()}"
            if entry[b"event"] == b"step":
                accepted[entry[b"jobId"], entry[b"step"]] += 1
        if not entries:
            return accepted
