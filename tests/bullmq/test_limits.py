import asyncio
import time
from datetime import timedelta

import pytest

from tests.bullmq.harness import Harness
from tests.support.listening import blocked_on
from tests.support.patience import LIMIT_S
from waystation.bullmq.limits import Limit
from waystation.bullmq.queue import Queue
from waystation.core.errors import InvalidOption, JobRateLimited
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def test_a_paused_queue_hands_out_nothing_until_resumed(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("before")
    await queue.add("urgent", priority=1)
    await queue.pause()
    await queue.add("during")

    assert await queue.is_paused()
    assert await harness.claim(5) == []
    assert not await harness.redis.exists(harness.keys.marker)
    await queue.resume()
    assert not await queue.is_paused()
    assert await harness.redis.zscore(harness.keys.marker, "0") == 0
    assert [claim.work.name for claim in await harness.claim(5)] == ["before", "during", "urgent"]
    names = [event["event"] for event in await harness.events()]
    assert names.count("paused") == names.count("resumed") == 1


async def test_resuming_wakes_workers_for_the_next_delayed_job(
    queue: Queue, harness: Harness
) -> None:
    await queue.pause()
    await queue.add("later", delay=AN_HOUR)
    await harness.redis.delete(harness.keys.marker)

    await queue.resume()

    due = await harness.redis.zscore(harness.keys.marker, "1")
    assert due == pytest.approx(time.time() * 1000 + HOUR, abs=60_000)
    assert await harness.redis.zscore(harness.keys.marker, "0") is None


async def test_what_bullmq_5_set_aside_comes_back_before_what_came_since(
    queue: Queue, harness: Harness
) -> None:
    aside = [str(n) for n in range(2 * 7000 + 3)]
    for first in range(0, len(aside), 1000):
        await harness.call("LPUSH", harness.keys.paused, *aside[first : first + 1000])
    await harness.call("HSET", harness.keys.meta, "paused", 1)
    await harness.call("LPUSH", harness.keys.wait, "new", "newest")

    await queue.resume()

    assert await harness.ids("wait") == ["newest", "new", *reversed(aside)]
    assert not await harness.redis.exists(harness.keys.paused)
    assert len(await harness.events("resumed")) == 1


async def test_global_concurrency_holds_workers_back(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("work", n) for n in range(5)])

    await queue.limits.set_concurrency(2)

    assert await queue.limits.get_concurrency() == 2
    assert not await queue.limits.is_maxed()
    assert len(await harness.claim(5)) == 2
    assert await queue.limits.is_maxed()
    assert await harness.claim(5) == []
    await queue.limits.remove_concurrency()
    assert await queue.limits.get_concurrency() is None
    assert len(await harness.claim(5)) == 3


async def test_a_global_rate_limit_holds_workers_back(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("work", n) for n in range(5)])

    await queue.limits.set_rate_limit(3, AN_HOUR)

    assert await queue.limits.get_rate_limit() == Limit(3, 3600)
    assert await queue.limits.rate_limit_ttl() == timedelta(0)
    assert len(await harness.claim(5)) == 3
    assert timedelta(0) < await queue.limits.rate_limit_ttl() <= AN_HOUR
    assert await queue.limits.rate_limit_ttl(4) == timedelta(0)
    await queue.limits.remove_rate_limit()
    assert await queue.limits.get_rate_limit() is None


async def test_a_queue_can_be_told_to_wait(queue: Queue, harness: Harness) -> None:
    await queue.add("work")
    await queue.limits.set_rate_limit(100, AN_HOUR)

    await queue.limits.rate_limit(AN_HOUR)

    assert await harness.claim(1) == []
    assert await queue.limits.reset_rate_limit()
    assert await queue.limits.rate_limit_ttl() == timedelta(0)
    with pytest.raises(InvalidOption, match="rate limit must be more than 0 seconds, got 0"):
        await queue.limits.rate_limit(0)


@pytest.mark.parametrize("set_by", ["worker", "queue", "hand"])
async def test_a_limit_met_while_the_worker_waits_already_ends_its_wait(
    queue: Queue, harness: Harness, set_by: str
) -> None:
    await queue.add_many([("work", n) for n in range(2)])
    limiter = None if set_by == "queue" else Limit(1, AN_HOUR)
    if set_by == "queue":
        await queue.limits.set_rate_limit(1, AN_HOUR)
    source = harness.source(limiter=limiter)
    if set_by == "hand":
        await queue.limits.rate_limit(AN_HOUR)
    else:
        assert len((await source.settle([], claim=2)).claims) == 1

    async with asyncio.timeout(LIMIT_S):
        await harness.redis.delete(harness.keys.marker)
        waiting = asyncio.create_task(source.wait(HOUR * 10))
        await blocked_on(harness.redis)
        assert (await source.settle([], claim=1)).claims == []
        await harness.clock.advance(HOUR / 1000 - 60)
        assert not waiting.done()
        await harness.clock.advance(60)
        assert waiting.done()


async def test_a_due_time_met_while_the_worker_waits_already_ends_its_wait(
    harness: Harness,
) -> None:
    async with asyncio.timeout(LIMIT_S):
        waiting = asyncio.create_task(harness.worker.wait(HOUR * 10))
        await blocked_on(harness.redis)
        await harness.call(
            "ZADD", harness.keys.delayed, (harness.clock.now_ms() + HOUR) * 4096, "1"
        )
        assert await harness.claim() == []
        await harness.clock.advance(HOUR / 1000 - 60)
        assert not waiting.done()
        await harness.clock.advance(60)
        assert waiting.done()


async def test_a_handler_that_meets_a_limit_holds_its_worker_back_without_a_limiter(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("work")
    claim = await harness.claim_one()
    await queue.limits.rate_limit(AN_HOUR)

    reply = await harness.worker.settle([Settled(claim, Failed(JobRateLimited()))], claim=1)

    assert (reply.claims, reply.refused) == ([], [])
    assert await harness.ids("wait") == [claim.id]
    assert await harness.claim() == []
    await harness.clock.advance(HOUR / 1000)
    assert (await harness.claim_one()).work.attempts_made == 0
