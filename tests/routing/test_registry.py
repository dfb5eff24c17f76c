"""Who works here, and whether they are alive."""

import json

import pytest

from tests.routing.hands import Hands
from waystation.core.errors import InvalidOption
from waystation.routing import registry
from waystation.routing.registry import HEARTBEAT_MS, Profile
from waystation.routing.source.claims import BEAT_S
from waystation.routing.upkeep import SchedulerOptions

GPU = Profile(server="worker-1", stack="node", region="us-east", capabilities=("email", "gpu"))


async def beat(hands: Hands, profile: Profile = GPU) -> int:
    return await registry.beat(hands.redis, hands.keys, profile, now=hands.clock.now_ms())


async def test_a_worker_describes_itself_in_json_that_stays(hands: Hands) -> None:
    """B-3 B-4"""
    await beat(hands)

    entry = json.loads(await hands.text("bridge:workers:worker-1") or "")

    assert await hands.redis.ttl("bridge:workers:worker-1") == -1
    assert entry["serverId"] == "worker-1"
    assert (entry["stack"], entry["region"]) == ("node", "us-east")
    assert entry["capabilities"] == ["email", "gpu"]
    assert entry["lastSeen"] == hands.clock.now_ms()
    assert isinstance(entry["pid"], int)
    assert entry["hostname"]


async def test_a_heartbeat_holds_its_instant_and_lives_half_a_minute(hands: Hands) -> None:
    """B-5 B-6 B-64"""
    await beat(hands)

    assert await hands.text("bridge:workers:heartbeat:worker-1") == str(hands.clock.now_ms())
    assert 15_000 < await hands.redis.pttl("bridge:workers:heartbeat:worker-1") <= HEARTBEAT_MS
    assert BEAT_S == 10


async def test_a_worker_whose_heartbeat_is_gone_counts_as_dead(hands: Hands) -> None:
    """B-7"""
    await beat(hands)
    assert [worker.alive for worker in await hands.queue.workers()] == [True]

    await hands.redis.delete("bridge:workers:heartbeat:worker-1")

    assert [worker.alive for worker in await hands.queue.workers()] == [False]


async def test_registered_workers_are_a_set(hands: Hands) -> None:
    """B-8 B-65"""
    assert await beat(hands)
    assert not await beat(hands)
    await beat(hands, Profile(server="worker-2"))

    assert await hands.redis.type("bridge:workers:active") == b"set"
    assert await hands.redis.smembers("bridge:workers:active") == {b"worker-1", b"worker-2"}


async def test_a_worker_that_ends_leaves_nothing_behind(hands: Hands) -> None:
    await beat(hands)

    assert await registry.leave(hands.redis, hands.keys, GPU)

    assert await hands.keys_like("bridge:workers:*") == []
    assert await hands.event_names("worker-1") == ["joined", "left"]


async def test_the_registry_forgets_who_has_been_dead_for_long(hands: Hands) -> None:
    """F-B16"""
    await beat(hands)
    await hands.clock.advance(200)
    await beat(hands)
    await hands.redis.delete("bridge:workers:heartbeat:worker-1")
    upkeep = await hands.upkeep(SchedulerOptions(forget_workers=300))

    await hands.clock.advance(299)
    assert await upkeep.tidy() == []
    await hands.clock.advance(1)

    assert await upkeep.tidy() == ["worker-1"]
    assert await hands.queue.workers() == []


@pytest.mark.parametrize("name", ["active", "heartbeat", "", "a:b", "a b", 'a"b', "a\nb"])
def test_a_worker_cannot_have_a_name_that_is_taken_by_the_registry(name: str) -> None:
    """F-B16"""
    with pytest.raises(InvalidOption, match="a server must"):
        Profile(server=name)


async def test_an_entry_nobody_can_read_is_still_listed(hands: Hands) -> None:
    await hands.redis.sadd("bridge:workers:active", "odd")
    await hands.redis.set("bridge:workers:odd", "{not json")

    assert [worker.server for worker in await hands.queue.workers()] == ["odd"]
