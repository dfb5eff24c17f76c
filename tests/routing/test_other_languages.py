"""The documented scripts and plain commands, as a client in another language uses them."""

import json
from importlib import resources
from pathlib import Path

import pytest

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness, harness_on
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.routing import Limit, NewJob, Queue, Schedule, Target

NOW = 1_700_000_000_000


@pytest.fixture
def bridge(harness: Harness) -> Bridge:
    return Bridge(harness.redis)


async def test_every_key_starts_with_the_namespace_and_another_one_is_a_world_of_its_own(
    harness: Harness, redis_url: str
) -> None:
    """B-1 B-2"""
    async with harness_on(redis_url, "other") as other:
        await other.add()
        assert not await harness.claim(harness.source())
        await harness.add()
        assert await other.claim(other.source())
        assert await harness.claim(harness.source())

    keys = await harness.keys_like("*")
    assert {key.split(":")[0] for key in keys} == {"bridge", "other"}
    assert Queue().keys.waiting == "bridge:jobs:waiting"
    await harness.redis.flushdb()


async def test_claim_job_takes_the_documented_arguments_and_gives_the_jobs_json(
    harness: Harness, bridge: Bridge
) -> None:
    """B-32 B-33 B-34 B-36 B-37 B-39 B-66"""
    id = await harness.add("email", {"to": "a"})

    job = await bridge.claim("worker-7", ttl=12)

    assert job is not None
    assert (job["jobId"], job["payload"]) == (id, {"to": "a"})
    assert await harness.text(f"bridge:jobs:lock:{id}") == "worker-7"
    assert 6_000 < await harness.redis.pttl(f"bridge:jobs:lock:{id}") <= 12_000
    assert await harness.redis.smembers("bridge:jobs:active") == {id.encode()}
    assert await harness.waiting() == []
    assert await harness.queue.state(id) == "active"
    assert await bridge.claim() is None


async def test_a_mismatch_leaves_no_trace(harness: Harness, bridge: Bridge) -> None:
    """B-38 F-B13"""
    id = await harness.add(target=Target(capabilities=("gpu",)))
    await bridge.claim()
    before = await harness.calls("set", "del", "zadd", "lrem")

    assert await bridge.claim() is None

    assert await harness.calls("set", "del", "zadd", "lrem") == before
    assert await harness.text(f"bridge:jobs:lock:{id}") is None


async def test_a_paused_type_is_passed_over(harness: Harness, bridge: Bridge) -> None:
    """B-30 B-36 F-B19"""
    await harness.add("email")
    other = await harness.add("sms")
    await harness.redis.sadd("bridge:queues:paused", "email")

    job = await bridge.claim()
    assert job is not None
    assert job["jobId"] == other
    assert await bridge.claim() is None
    await harness.redis.srem("bridge:queues:paused", "email")

    assert await bridge.claim() is not None


async def test_a_lock_from_elsewhere_keeps_its_job_in_line(
    harness: Harness, bridge: Bridge
) -> None:
    """B-36 B-61"""
    locked, free = await harness.add(), await harness.add()
    await harness.redis.set(f"bridge:jobs:lock:{locked}", "somebody", ex=30)

    first = await bridge.claim()
    assert first is not None
    assert first["jobId"] == free
    assert await bridge.claim() is None
    await harness.redis.delete(f"bridge:jobs:lock:{locked}")
    second = await bridge.claim()

    assert second is not None
    assert second["jobId"] == locked


async def test_what_is_pushed_with_plain_commands_is_found_in_its_lane(harness: Harness) -> None:
    """B-66 B-56"""
    foreign = Bridge(harness.redis)
    ours = await harness.add()
    normal = [await foreign.dispatch("n1"), await foreign.dispatch("n2")]
    urgent = [await foreign.dispatch(id, priority=9) for id in ("u1", "u2")]

    assert await harness.claim_ids(harness.source(), 9) == [*urgent, ours, *normal]


async def test_a_plain_push_between_our_own_is_not_lost(harness: Harness) -> None:
    """B-66"""
    foreign, source = Bridge(harness.redis), harness.source()
    ids = [await harness.add(), await foreign.dispatch("x"), await harness.add()]

    assert await harness.claim_ids(source, 9) == ids


async def test_an_old_client_that_claims_with_the_documents_own_script_is_respected(
    harness: Harness,
) -> None:
    """B-66 B-43"""
    ids = [await harness.add() for _ in range(3)]
    old = Bridge(harness.redis, literal=True)

    taken = await old.claim("old")

    assert taken is not None
    assert taken["jobId"] == ids[0]
    assert await harness.claim_ids(harness.source(), 9) == ids[1:]
    assert await harness.redis.llen("bridge:jobs:waiting") == 0
    assert await harness.redis.zcard(harness.keys.places) == 0


async def test_the_index_is_mended_after_plain_commands_in_the_middle_of_the_list(
    harness: Harness,
) -> None:
    """B-66"""
    ids = [await harness.add() for _ in range(6)]
    await harness.redis.lrem("bridge:jobs:waiting", 1, ids[2])
    await harness.redis.delete(f"bridge:jobs:data:{ids[2]}")
    await harness.redis.set("bridge:jobs:data:x", json.dumps({"jobId": "x", "type": "email"}))
    await harness.redis.linsert("bridge:jobs:waiting", "BEFORE", ids[4], "x")
    await harness.redis.rpush("bridge:jobs:waiting", "ghost")
    upkeep = await harness.upkeep()

    assert await upkeep.reindex() > 0

    assert await harness.redis.zrange(harness.keys.places, 0, -1) == await harness.redis.lrange(
        "bridge:jobs:waiting", 0, -1
    )
    claimed = await harness.claim_ids(harness.source(), 9)
    assert sorted(claimed) == sorted([*(id for id in ids if id != ids[2]), "x"])


async def test_a_job_whose_worker_in_another_language_died_is_taken_back(harness: Harness) -> None:
    """B-60 B-66 F-B5"""
    id = await harness.add()
    await Bridge(harness.redis, literal=True).claim("old")
    upkeep = await harness.upkeep()
    assert await upkeep.recover() == []
    await harness.redis.delete(f"bridge:jobs:lock:{id}")

    assert await upkeep.recover() == [id]

    assert await harness.claim_ids(harness.source()) == [id]


async def test_the_lock_of_a_job_that_claim_job_gave_out_says_how_long_it_is_held(
    harness: Harness, bridge: Bridge
) -> None:
    """B-15 B-66"""
    id = await harness.add()
    await bridge.claim("w1", now=harness.clock.now_ms(), ttl=30)
    lock = harness.keys.of(id).lock
    upkeep = await harness.upkeep()
    for renew in (("EXPIRE", lock, 30), ("PEXPIRE", lock, 30_000), ("SET", lock, "w1", "XX")):
        await harness.asked(*renew)
        await harness.clock.advance(60)
        assert await upkeep.recover() == []
        # A lock without an end has got one, or nobody would ever learn that its worker is dead.
        assert 0 < await harness.redis.pttl(lock) <= 30_000

    await harness.redis.delete(lock)
    await harness.clock.advance(60)

    assert await upkeep.recover() == [id]
    assert await bridge.release(id, "w1") == 0


async def test_jobs_that_are_kept_by_their_locks_hide_none_that_is_not(
    harness: Harness, bridge: Bridge
) -> None:
    """B-15 B-60"""
    ids = [job.id for job in await harness.queue.add_many([NewJob("email")] * 230)]
    for later in range(len(ids)):
        await bridge.claim("w1", now=harness.clock.now_ms() + later)
    await harness.redis.delete(harness.keys.of(ids[-1]).lock)
    await harness.clock.advance(60)

    assert await (await harness.upkeep()).recover() == ids[-1:]


async def test_a_plain_lock_without_an_end_gets_one(harness: Harness) -> None:
    """B-14 B-66"""
    id = await harness.add()
    await Bridge(harness.redis, literal=True).claim("old")
    await harness.redis.persist(harness.keys.of(id).lock)

    assert await (await harness.upkeep()).recover() == []

    assert 0 < await harness.redis.pttl(harness.keys.of(id).lock) <= 30_000


async def test_process_delayed_moves_what_is_due_in_batches(
    harness: Harness, bridge: Bridge
) -> None:
    """B-46 B-47 B-48"""
    ids = [await harness.add(schedule=Schedule(delay=1)) for _ in range(150)]
    now = harness.clock.now_ms()
    assert await bridge.process_delayed(now) == 0

    assert await bridge.process_delayed(now + 1_000) == 100
    assert await bridge.process_delayed(now + 1_000) == 50
    assert sorted(await harness.waiting()) == sorted(ids)
    assert await harness.queue.state(ids[0]) == "waiting"


async def test_process_cron_gives_what_needs_a_next_time_and_fires_each_slot_once(
    harness: Harness, bridge: Bridge
) -> None:
    """B-25 B-49 B-50 B-51 B-52 F-B3 F-B4"""
    id = await harness.add(schedule=Schedule(cron="* * * * *", timezone="Europe/Vienna"))
    assert await bridge.process_cron(harness.clock.now_ms()) == b"[]"
    slot = round(await harness.redis.zscore("bridge:jobs:cron", id) or 0)

    due = [json.loads(await bridge.process_cron(slot + 10)) for _ in range(3)]

    assert due[2] == [{"jobId": id, "cronExpression": "* * * * *", "timezone": "Europe/Vienna"}]
    assert await harness.waiting() == [f"{id}:{slot}"]
    await harness.redis.zadd("bridge:jobs:cron", {id: slot + 60_000})
    assert json.loads(await bridge.process_cron(slot + 60_000))
    assert await harness.waiting() == [f"{id}:{slot}", f"{id}:{slot + 60_000}"]
    (claim,) = await harness.claim(harness.source())
    assert json.loads(claim.work.raw)["jobId"] == f"{id}:{slot}"


async def test_release_lock_by_its_owner_frees_everything(harness: Harness, bridge: Bridge) -> None:
    """B-53 B-54"""
    await harness.queue.limits.set("email", Limit(max_concurrent=1))
    id = await harness.add()
    await bridge.claim("w1")
    assert await harness.text("bridge:ratelimit:concurrent:email") == "1"

    assert await bridge.release(id, "w1") == 1

    assert await harness.redis.exists(f"bridge:jobs:lock:{id}", "bridge:jobs:active") == 0
    assert await harness.redis.exists("bridge:ratelimit:concurrent:email", harness.keys.claims) == 0


async def test_release_lock_by_another_changes_nothing(harness: Harness, bridge: Bridge) -> None:
    """B-55"""
    id = await harness.add()
    await bridge.claim("w1")

    assert await bridge.release(id, "w2") == 0

    assert await harness.text(f"bridge:jobs:lock:{id}") == "w1"
    assert await harness.redis.sismember("bridge:jobs:active", id)


async def test_releasing_never_counts_below_nothing(harness: Harness, bridge: Bridge) -> None:
    """B-54"""
    await harness.redis.set("bridge:jobs:lock:x", "w1", ex=30)

    assert await bridge.release("x", "w1") == 1

    assert await harness.text("bridge:ratelimit:concurrent:email") is None


async def test_a_foreign_worker_may_try_again_and_give_up(harness: Harness, bridge: Bridge) -> None:
    """B-26 B-66"""
    id = await harness.add()
    keys = harness.keys.of(id)
    job = await bridge.claim("w1", now=harness.clock.now_ms())
    assert job is not None
    await harness.redis.set(keys.data, json.dumps(job | {"attempts": 1}))
    await harness.redis.set(keys.status, "delayed")
    await harness.redis.zadd(harness.keys.delayed, {id: harness.clock.now_ms() + 1_000})
    assert await bridge.release(id) == 1
    assert await bridge.claim("w1", now=harness.clock.now_ms()) is None
    await harness.clock.advance(2)
    assert await bridge.claim("w1", now=harness.clock.now_ms()) == job | {"attempts": 1}

    await harness.redis.set(keys.data, json.dumps(job | {"attempts": 2}))
    await harness.redis.set(keys.status, "dead")
    await harness.redis.lpush(harness.keys.deadletter, id)
    assert await bridge.release(id) == 1

    assert await harness.queue.state(id) == "dead"
    assert [each.attempts for each in await harness.queue.dead_letters.list()] == [2]
    assert await harness.queue.dead_letters.retry(id) == 1
    assert await harness.claim_ids(harness.source()) == [id]


async def test_two_languages_share_one_line(harness: Harness, bridge: Bridge) -> None:
    """B-66 B-43"""
    ids = [await harness.add() for _ in range(20)]
    source = harness.source()
    seen: list[str] = []
    for _ in range(10):
        job = await bridge.claim("node")
        assert job is not None
        seen.append(job["jobId"])
        (claim,) = await harness.claim(source)
        seen.append(claim.id)
        await source.settle([Settled(claim, Done())], claim=0)

    assert seen == ids


def test_the_scripts_are_files_that_say_what_they_take() -> None:
    """B-68"""
    folder = Path(str(resources.files("waystation.routing.redis"))) / "lua"
    for name in ("claim_job", "process_delayed", "process_cron", "release_lock"):
        (file,) = folder.rglob(f"{name}.lua")
        text = file.read_text()
        assert text.startswith("--- ")
        assert "--- keys  " in text
        assert "--- args  " in text
