"""The flaws of the spec's literal algorithm, and not here."""

import json

from tests.files.harness import Harness, harness_on
from waystation.files.options import Layout


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
