"""The faults of the document's own algorithms, and not here."""

import json

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from tests.routing.hands import Hands, hands_on
from waystation.core.outcome import Done
from waystation.routing import JobOptions, NewJob, Schedule, Target, registry
from waystation.routing.registry import Profile
from waystation.routing.upkeep import SchedulerOptions

MINUTE = 60_000


async def test_a_job_behind_a_hundred_others_is_found(hands: Hands) -> None:
    """F-B1 B-35"""
    await hands.queue.add_many(
        [NewJob("email", None, JobOptions(target=Target(server="absent")))] * 10_000
    )
    fits = await hands.add()

    assert await hands.claim_ids(hands.source()) == [fits]
    assert await hands.redis.llen("bridge:jobs:waiting") == 10_000
    await hands.redis.flushdb()


async def test_ten_thousand_different_targets_do_not_hide_a_job(hands: Hands) -> None:
    """F-B1"""
    await hands.queue.add_many(
        [
            NewJob("email", None, JobOptions(target=Target(server=f"absent-{number}")))
            for number in range(10_000)
        ]
    )
    fits = await hands.add()

    assert await hands.claim_ids(hands.source()) == [fits]
    await hands.redis.flushdb()


async def test_each_firing_is_a_job_of_its_own(hands: Hands) -> None:
    """F-B3"""
    id = await hands.add(schedule=Schedule(cron="* * * * *"))
    upkeep = await hands.upkeep()
    made: list[str] = []
    for _ in range(2):
        await hands.clock.advance(60)
        made += await upkeep.fire_schedules()

    assert len(set(made)) == 2
    assert all(instance.startswith(f"{id}:") for instance in made)
    assert await hands.queue.state(id) == "cron"
    claims = await hands.claim(hands.source(), 9)
    assert [json.loads(claim.work.raw)["jobId"] for claim in claims] == made


async def test_the_jobs_of_a_dead_worker_are_found(hands: Hands) -> None:
    """F-B5 B-60"""
    mine, theirs = await hands.add(), await hands.add()
    living, dead = hands.source("living"), hands.source("dead")
    for name in ("living", "dead"):
        await registry.beat(hands.redis, hands.keys, Profile(server=name))
    await hands.claim(living)
    await hands.claim(dead)
    await hands.redis.delete("bridge:workers:heartbeat:dead")

    assert await (await hands.upkeep()).recover() == [theirs]
    assert await hands.text(f"bridge:jobs:lock:{theirs}") is None
    assert await hands.text(f"bridge:jobs:lock:{mine}") == "living"
    assert await hands.waiting() == [theirs]


async def test_an_old_claim_of_the_same_worker_ends_nothing(hands: Hands) -> None:
    """F-B7"""
    await hands.add()
    source = hands.source("w1")
    (first,) = await hands.claim(source)
    await hands.lapse()
    (second,) = await hands.claim(source)

    assert await hands.settle(source, first)
    assert not await hands.settle(source, second)


async def test_a_job_that_kills_its_workers_is_given_up(
    hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """F-B8 B-62"""
    id = await hands.add()
    source = hands.source("victim")
    upkeep = await hands.upkeep(SchedulerOptions(max_stalls=2))
    for _ in range(3):
        assert await hands.claim_ids(source) == [id]
        await hands.clock.advance(31)
        await upkeep.recover()

    (letter,) = [each async for each in hands.queue.dead_letters]
    assert (letter.id, letter.reason, letter.worker) == (id, "STALLED", "victim")
    assert not await hands.claim(source)
    told = [(each.levelname, each.getMessage().split()[0]) for each in caplog.records]
    assert told == [("WARNING", "job_stalled")] * 3 + [("ERROR", "job_failed")]


async def test_the_status_follows_the_job_and_nothing_leaks(hands: Hands) -> None:
    """F-B10"""
    id = await hands.add(schedule=Schedule(delay=0.001))
    await hands.clock.advance(1)
    source = hands.source()
    (claim,) = await hands.claim(source)
    assert await hands.queue.state(id) == "active"
    await hands.settle(source, claim)
    left = await hands.keys_like(f"bridge:*{id}*")
    assert left
    assert [key for key in left if await hands.redis.ttl(key) == -1] == []


async def test_with_a_hash_tag_all_keys_of_a_line_share_a_slot(hands: Hands, redis: Redis) -> None:
    """F-B12"""
    assert key_slot(b"bridge:jobs:waiting") != key_slot(b"bridge:jobs:active")
    url = f"redis://{hands.store.address.hosts[0][0]}:{hands.store.address.hosts[0][1]}"
    async with hands_on(url, "{bridge}") as tagged:
        await tagged.add(target=Target(capabilities=("gpu",)))
        await tagged.claim(tagged.source(capabilities=["gpu"]))
        keys = await hands.keys_like("{bridge}:*")
    slots = {key_slot(key.encode()) for key in keys}
    assert len(keys) > 5
    assert len(slots) == 1
    await redis.delete(*keys)


async def test_an_idle_look_writes_nothing(hands: Hands) -> None:
    """F-B13"""
    for _ in range(20):
        await hands.add(target=Target(server="absent"))
    source = hands.source()
    await hands.claim(source)
    before = await hands.calls("set", "del")
    await hands.claim(source)
    assert await hands.calls("set", "del") == before


async def test_the_end_of_a_job_is_one_step(hands: Hands) -> None:
    """F-B14 B-59"""
    # Here a worker that dies has either filed all or nothing.
    id = await hands.add()
    source = hands.source()
    (claim,) = await hands.claim(source)
    before = set(await hands.keys_like("bridge:jobs:*"))
    calls = await hands.calls("evalsha")

    await hands.settle(source, claim, Done("ok"))

    assert await hands.calls("evalsha") == calls + 1
    after = set(await hands.keys_like("bridge:jobs:*"))
    assert before - after == {
        "bridge:jobs:active",
        "bridge:jobs:claims",
        "bridge:jobs:leases",
        "bridge:jobs:routes",
        f"bridge:jobs:data:{id}",
        f"bridge:jobs:lock:{id}",
    }
    assert after - before == {f"bridge:jobs:result:{id}"}
