"""The flaws of the spec's literal algorithm, and not here."""

import asyncio
import json

from tests.files.harness import Harness, harness_on
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.files.options import Layout

RAW = b'{"id":"7","filepath":"/a","retries":0,"priority":"low"}'


async def put(harness: Harness, raw: bytes = RAW) -> None:
    await harness.redis.lpush(harness.keys.queues[1], raw)


async def test_a_job_longer_than_the_heartbeat_is_not_run_twice(harness: Harness) -> None:
    """F-T1: a static heartbeat lapses under a running job, and both copies are completed."""
    harness.set(lease=1.5)
    await put(harness)
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    async with source.keeper():
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert await harness.reaper().reap() == 0
    assert not (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert await harness.redis.llen(harness.keys.completed) == 1


async def test_a_crash_in_the_middle_of_a_completion_leaves_one_result(harness: Harness) -> None:
    """F-T3: three commands; a crash after the first completes the job and runs it again."""
    await put(harness)
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Done())], claim=0)  # one script: there is no middle
    assert await harness.lapse() == 0
    assert await harness.redis.llen(harness.keys.completed) == 1


async def test_the_origin_queue_is_kept_in_the_job(harness: Harness, redis_url: str) -> None:
    """F-T8: without it the reaper cannot tell where a job came from."""
    layout = Layout(priorities=("rush", "slow"), queues={"rush": "a:rush", "slow": "a:slow"})
    async with harness_on(redis_url, layout) as other:
        await other.add(priority="rush")
        await other.source().settle([], claim=1)
        assert await other.lapse() == 1
        assert await harness.redis.llen("a:rush") == 1
    assert json.loads((await harness.redis.lrange("a:rush", 0, -1))[0])["origin_queue"] == "a:rush"
    await harness.redis.delete("a:rush")


async def test_the_names_come_from_the_settings(harness: Harness, redis_url: str) -> None:
    """F-T9: one heartbeat name, one list name, both from the patterns."""
    layout = Layout(
        processing_list_pattern="jobqueue:worker:x-%s:processing",
        heartbeat_key_pattern="jobqueue:processing:worker:x-%s",
    )
    async with harness_on(redis_url, layout) as other:
        await other.add()
        await other.source(worker="w").settle([], claim=1)
        assert await harness.redis.exists("jobqueue:worker:x-w:processing")
        assert await harness.redis.exists("jobqueue:processing:worker:x-w")
        assert await other.lapse() == 1


async def test_any_priorities_and_a_hash_tag_will_do(harness: Harness, redis_url: str) -> None:
    """F-T19: the priorities come from the settings, and all keys may share one slot."""
    layout = Layout(prefix="{jobqueue}", priorities=("now", "soon", "later"))
    async with harness_on(redis_url, layout) as other:
        ids = [await other.add(priority=name) for name in ("later", "soon", "now")]
        claims = (await other.source().settle([], claim=3)).claims
        assert [claim.id for claim in claims] == ids[::-1]
        keys = [key.decode() for key in await harness.redis.keys("*jobqueue*")]
        assert [key for key in keys if "{jobqueue}" not in key] == []
