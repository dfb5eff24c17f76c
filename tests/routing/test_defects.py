"""The faults of the document's own algorithms, and not here."""

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from tests.routing.harness import Harness, harness_on
from waystation.core.outcome import Done
from waystation.routing import JobOptions, NewJob, Target, registry
from waystation.routing.registry import Profile
from waystation.routing.upkeep import SchedulerOptions


async def test_ten_thousand_different_targets_do_not_hide_a_job(harness: Harness) -> None:
    """F-B1 B-35"""
    await harness.queue.add_many(
        [
            NewJob("email", None, JobOptions(target=Target(server=f"absent-{number}")))
            for number in range(10_000)
        ]
    )
    fits = await harness.add()

    assert await harness.claim_ids(harness.source()) == [fits]
    await harness.redis.flushdb()


async def test_the_jobs_of_a_dead_worker_are_found(harness: Harness) -> None:
    """F-B5 B-60"""
    mine, theirs = await harness.add(), await harness.add()
    living, dead = harness.source("living"), harness.source("dead")
    for name in ("living", "dead"):
        await registry.beat(harness.redis, harness.keys, Profile(server=name))
    await harness.claim(living)
    await harness.claim(dead)
    await harness.redis.delete("bridge:workers:heartbeat:dead")

    assert await (await harness.upkeep()).recover() == [theirs]
    assert await harness.text(f"bridge:jobs:lock:{theirs}") is None
    assert await harness.text(f"bridge:jobs:lock:{mine}") == "living"
    assert await harness.waiting() == [theirs]


async def test_a_job_that_kills_its_workers_is_given_up(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """F-B8 B-62"""
    id = await harness.add()
    source = harness.source("victim")
    upkeep = await harness.upkeep(SchedulerOptions(max_stalls=2))
    for _ in range(3):
        assert await harness.claim_ids(source) == [id]
        await harness.clock.advance(31)
        await upkeep.recover()

    (letter,) = [each async for each in harness.queue.dead_letters]
    assert (letter.id, letter.reason, letter.worker) == (id, "STALLED", "victim")
    assert not await harness.claim(source)
    records = [(each.levelname, each.getMessage().split()[0]) for each in caplog.records]
    assert records == [("WARNING", "job_stalled")] * 3 + [("ERROR", "job_failed")]


async def test_with_a_hash_tag_all_keys_of_a_line_share_a_slot(
    harness: Harness, redis: Redis
) -> None:
    """F-B12"""
    assert key_slot(b"bridge:jobs:waiting") != key_slot(b"bridge:jobs:active")
    url = f"redis://{harness.store.address.hosts[0][0]}:{harness.store.address.hosts[0][1]}"
    async with harness_on(url, "{bridge}") as tagged:
        await tagged.add(target=Target(capabilities=("gpu",)))
        await tagged.claim(tagged.source(capabilities=["gpu"]))
        keys = await harness.keys_like("{bridge}:*")
    slots = {key_slot(key.encode()) for key in keys}
    assert len(keys) > 5
    assert len(slots) == 1
    await redis.delete(*keys)


async def test_an_idle_look_writes_nothing(harness: Harness) -> None:
    """F-B13"""
    for _ in range(20):
        await harness.add(target=Target(server="absent"))
    source = harness.source()
    await harness.claim(source)
    before = await harness.calls("set", "del")
    await harness.claim(source)
    assert await harness.calls("set", "del") == before


async def test_the_end_of_a_job_is_one_step(harness: Harness) -> None:
    """F-B14 B-59"""
    # Here a worker that dies has either filed all or nothing.
    id = await harness.add()
    source = harness.source()
    (claim,) = await harness.claim(source)
    before = set(await harness.keys_like("bridge:jobs:*"))
    calls = await harness.calls("evalsha")

    await harness.settle(source, claim, Done("ok"))

    assert await harness.calls("evalsha") == calls + 1
    after = set(await harness.keys_like("bridge:jobs:*"))
    assert before - after == {
        "bridge:jobs:active",
        "bridge:jobs:claims",
        "bridge:jobs:leases",
        "bridge:jobs:routes",
        f"bridge:jobs:data:{id}",
        f"bridge:jobs:lock:{id}",
    }
    assert after - before == {f"bridge:jobs:result:{id}"}
