"""Who works here, and whether they are alive."""

import json

import pytest

from tests.routing.harness import Harness
from waystation.core.errors import InvalidOption
from waystation.routing import registry
from waystation.routing.registry import HEARTBEAT_MS, Profile
from waystation.routing.source import BEAT_S
from waystation.routing.upkeep import SchedulerOptions

GPU = Profile(server="worker-1", stack="node", region="us-east", capabilities=("email", "gpu"))


async def beat(harness: Harness, profile: Profile = GPU) -> int:
    return await registry.beat(harness.redis, harness.keys, profile, now=harness.clock.now_ms())


async def test_a_worker_describes_itself_in_json_that_stays(harness: Harness) -> None:
    """B-3 B-4"""
    await beat(harness)

    entry = json.loads(await harness.text("bridge:workers:worker-1") or "")

    assert await harness.redis.ttl("bridge:workers:worker-1") == -1
    assert entry["serverId"] == "worker-1"
    assert (entry["stack"], entry["region"]) == ("node", "us-east")
    assert entry["capabilities"] == ["email", "gpu"]
    assert entry["lastSeen"] == harness.clock.now_ms()
    assert isinstance(entry["pid"], int)
    assert entry["hostname"]


async def test_a_heartbeat_holds_its_instant_and_lives_half_a_minute(harness: Harness) -> None:
    """B-5 B-6 B-64"""
    await beat(harness)

    assert await harness.text("bridge:workers:heartbeat:worker-1") == str(harness.clock.now_ms())
    assert 15_000 < await harness.redis.pttl("bridge:workers:heartbeat:worker-1") <= HEARTBEAT_MS
    assert BEAT_S == 10


async def test_a_worker_whose_heartbeat_is_gone_counts_as_dead(harness: Harness) -> None:
    """B-7"""
    await beat(harness)
    assert [worker.alive for worker in await harness.queue.workers()] == [True]

    await harness.redis.delete("bridge:workers:heartbeat:worker-1")

    assert [worker.alive for worker in await harness.queue.workers()] == [False]


async def test_registered_workers_are_a_set(harness: Harness) -> None:
    """B-8 B-65"""
    assert await beat(harness)
    assert not await beat(harness)
    await beat(harness, Profile(server="worker-2"))

    assert await harness.redis.type("bridge:workers:active") == b"set"
    assert await harness.redis.smembers("bridge:workers:active") == {b"worker-1", b"worker-2"}


async def test_a_worker_that_ends_leaves_nothing_behind(harness: Harness) -> None:
    await beat(harness)

    assert await registry.leave(harness.redis, harness.keys, GPU)

    assert await harness.keys_like("bridge:workers:*") == []
    assert await harness.event_names("worker-1") == ["joined", "left"]


async def test_the_registry_forgets_who_has_been_dead_for_long(harness: Harness) -> None:
    """F-B16"""
    await beat(harness)
    await harness.clock.advance(200)
    await beat(harness)
    await harness.redis.delete("bridge:workers:heartbeat:worker-1")
    upkeep = await harness.upkeep(SchedulerOptions(forget_workers=300))

    await harness.clock.advance(299)
    assert await upkeep.tidy() == []
    await harness.clock.advance(1)

    assert await upkeep.tidy() == ["worker-1"]
    assert await harness.queue.workers() == []


@pytest.mark.parametrize("name", ["active", "heartbeat", "", "a:b", "a b", 'a"b', "a\nb"])
def test_a_worker_cannot_have_a_name_that_is_taken_by_the_registry(name: str) -> None:
    """F-B16"""
    with pytest.raises(InvalidOption, match="a server must"):
        Profile(server=name)


async def test_an_entry_nobody_can_read_is_still_listed(harness: Harness) -> None:
    await harness.redis.sadd("bridge:workers:active", "odd")
    await harness.redis.set("bridge:workers:odd", "{not json")

    assert [worker.server for worker in await harness.queue.workers()] == ["odd"]
