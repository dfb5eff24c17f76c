"""A namespace with its workers, limits, schedules, dead letters and foreign clients."""

import json
from typing import Any

from tests.routing.harness import Harness, harness_on
from waystation.core.outcome import Done, Failed, Returned
from waystation.core.runtime.claim import Settled
from waystation.routing import registry
from waystation.routing.limits import Limit
from waystation.routing.options import BackoffRule, Retry
from waystation.routing.redis import scripts
from waystation.routing.registry import Profile
from waystation.routing.schedules import Schedule
from waystation.routing.upkeep import SchedulerOptions

AT_ONCE = Retry(backoff=BackoffRule(delay=0))
LATER = Retry(backoff=BackoffRule(delay=0.5))
ONCE = Retry(attempts=1)


async def walk(url: str) -> None:
    """Take the paths of every script of routing."""
    for part in (dispatch, settle, limit, depend, recover, bury, schedule, bridge, look, tend):
        async with harness_on(url) as harness:
            await harness.redis.flushdb()
            await part(harness)


async def dispatch(harness: Harness) -> None:
    wishes: list[dict[str, Any]] = [
        {},
        {"priority": 9},
        {"priority": 9},
        {"schedule": Schedule(delay=1)},
        {"schedule": Schedule(cron="* * * * *")},
        {"job_id": "own"},
        {"job_id": "own"},
        {"idempotency_key": "k"},
        {"idempotency_key": "k"},
        {"depends_on": ("own",)},
        {"depends_on": ("own",), "schedule": Schedule(delay=1)},
    ]
    for options in wishes:
        await harness.add(**options)
    await foreign(harness, "pushed")
    await harness.add()


async def foreign(harness: Harness, id: str, **more: Any) -> None:
    """Put a job into the list as a client in another language does."""
    data = json.dumps({"jobId": id, "type": "email", "payload": {}, **more})
    await harness.redis.set(harness.keys.of(id).data, data)
    await harness.redis.rpush(harness.keys.waiting, id)


async def settle(harness: Harness) -> None:
    source = harness.source()
    await harness.claim(source)
    for retry in (AT_ONCE, LATER, ONCE):
        await harness.add(retry=retry)
        await harness.fail(source)
        await harness.claim(source)
    for _ in range(4):
        await harness.add(priority=9)
        await harness.add("other")
    held = await harness.claim(source, 6)
    outcomes = [Done(1), Returned(), Done(2), Failed(RuntimeError("no")), Returned()]
    settled = [Settled(each, outcome) for each, outcome in zip(held, outcomes, strict=False)]
    await source.settle(settled, claim=2)
    # Somebody has taken away what is known of the jobs that are held.
    await harness.redis.delete(harness.keys.routes)
    await held[5].work.update_progress(50, "half")
    async with source.keeper() as extend:
        await extend(held)
    await harness.add(schedule=Schedule(delay=0.01))
    await harness.clock.advance(1)
    await harness.claim(source, 20)
    # What others have pushed, of which one says nothing and one has gone.
    await foreign(harness, "pushed")
    await foreign(harness, "urgent", priority=9)
    await foreign(harness, "odd", type=7)
    await harness.redis.rpush(harness.keys.waiting, "gone")
    await harness.claim(source, 20)


async def limit(harness: Harness) -> None:
    source = harness.source()
    await harness.queue.limits.set("email", Limit(max_concurrent=2, max_per_minute=3))
    for _ in range(5):
        await harness.add()
    first, second = await harness.claim(source, 5)
    await source.settle([Settled(first, Done(1)), Settled(second, Returned())], claim=2)
    await (await harness.upkeep()).reconcile()
    await harness.redis.set(harness.keys.of_type("email").concurrent, 7)
    await (await harness.upkeep()).reconcile()
    await harness.queue.limits.remove("email")
    await harness.queue.pause("email")
    await harness.claim(source)
    await harness.queue.resume("email")
    await harness.queue.limits.set("email", Limit(max_concurrent=9))
    held = await harness.claim(source, 3)
    await harness.queue.cancel(*(claim.id for claim in held))
    async with source.keeper() as extend:
        await extend(held)
    await source.settle([Settled(held[0], Done(1))], claim=0)
    await harness.lapse()


async def depend(harness: Harness) -> None:
    source = harness.source()
    for more in ({}, {"schedule": Schedule(delay=1)}):
        first = await harness.add()
        second = await harness.add()
        await harness.add("after", depends_on=(first, second), **more)
        for held in await harness.claim(source, 2):
            await harness.settle(source, held)
        await harness.claim(source, 9)
    first = await harness.add()
    dead = await harness.add("after", depends_on=(first,))
    await harness.queue.cancel(first)
    await harness.add(job_id=first)
    await harness.queue.dead_letters.retry(dead)
    for status in ("completed", ""):
        other = await harness.add()
        await harness.add("after", depends_on=(other,))
        await harness.redis.delete(harness.keys.of(other).data, harness.keys.of(other).status)
        await harness.redis.set(harness.keys.of(other).status, status)
    upkeep = await harness.upkeep()
    await upkeep.find_ended()
    await upkeep.release()


async def recover(harness: Harness) -> None:
    source = harness.source()
    for _ in range(3):
        await harness.add()
    await harness.add(priority=9)
    await harness.claim(source, 3)
    await harness.lapse()
    await harness.claim(source, 3)
    await harness.clock.advance(60)
    await (await harness.upkeep(SchedulerOptions(max_stalls=0))).recover()
    # A worker that has gone silent, and a job whose data is gone.
    await registry.beat(
        harness.redis, harness.keys, Profile(server="w1"), now=harness.clock.now_ms()
    )
    await harness.add()
    (held,) = await harness.claim(source)
    await harness.redis.delete(harness.keys.worker_at("w1").heartbeat)
    await (await harness.upkeep()).recover()
    (held,) = await harness.claim(source)
    await harness.redis.delete(harness.keys.of(held.id).data)
    await harness.lapse()
    # What others hold by plain commands.
    await harness.add(job_id="plain")
    await harness.redis.lrem(harness.keys.waiting, 1, "plain")
    await harness.redis.sadd(harness.keys.active, "plain")
    await harness.lapse()


async def bury(harness: Harness) -> None:
    source = harness.source()
    ids: list[str] = []
    for _ in range(3):
        await harness.add(retry=ONCE)
        ids.append(await harness.fail(source))
    await harness.add("after", depends_on=(ids[-1],))
    await harness.redis.set(harness.keys.deadletter_cap, 2)
    await harness.add(retry=ONCE)
    await harness.fail(source)
    dead = harness.queue.dead_letters
    letters = [letter async for letter in dead]
    await dead.retry(letters[0].id)
    await dead.remove(letters[1].id)


async def schedule(harness: Harness) -> None:
    await harness.add(schedule=Schedule(cron="* * * * *"))
    await harness.add(schedule=Schedule(delay=1))
    for _ in range(2):
        await harness.clock.advance(61)
        upkeep = await harness.upkeep()
        await upkeep.promote_due()
        await upkeep.fire_schedules()
    await harness.clock.advance(600)
    await scripts.process_cron(harness.redis, harness.keys, now=harness.clock.now_ms(), batch=10)


async def bridge(harness: Harness) -> None:
    for at in range(3):
        await harness.add(job_id=f"job-{at}")
    await foreign(harness, "pushed")
    for id in ("job-0", "job-1"):
        await scripts.claim_job(
            harness.redis,
            harness.keys,
            worker="node",
            stack='["node"]',
            capabilities="[]",
            region="[]",
            now=harness.clock.now_ms(),
            lock_ttl=30,
            data_prefix=harness.keys.data_prefix,
            lock_prefix=f"{harness.keys.namespace}:jobs:lock:",
            limit_prefix=f"{harness.keys.namespace}:ratelimit:concurrent:",
        )
        await scripts.release_lock(
            harness.redis, harness.keys.of(id, type="email"), worker="node", id=id
        )
    await harness.redis.set(harness.keys.of("plain").lock, "node")
    await harness.redis.sadd(harness.keys.active, "plain")
    await harness.redis.set(harness.keys.of_type("email").concurrent, 1)
    await scripts.release_lock(
        harness.redis, harness.keys.of("plain", type="email"), worker="node", id="plain"
    )
    await harness.add(schedule=Schedule(delay=0.01))
    await harness.clock.advance(1)
    await scripts.process_delayed(harness.redis, harness.keys, now=harness.clock.now_ms())


async def look(harness: Harness) -> None:
    profiles = [Profile(server="w1", types=types).matched() for types in ((), ("other",))]
    await foreign(harness, "pushed")
    await foreign(harness, "odd", type=7)
    await harness.redis.rpush(harness.keys.waiting, "gone")
    await harness.add(schedule=Schedule(delay=0.01))
    await harness.clock.advance(1)
    await scripts.look(harness.redis, harness.keys, now=harness.clock.now_ms(), profiles=profiles)


async def tend(harness: Harness) -> None:
    profile = Profile(server="w1")
    for _ in range(2):
        await registry.beat(harness.redis, harness.keys, profile, now=harness.clock.now_ms())
    await registry.leave(harness.redis, harness.keys, profile, now=harness.clock.now_ms())
    await registry.beat(harness.redis, harness.keys, profile, now=harness.clock.now_ms())
    await harness.redis.delete(harness.keys.worker_at("w1").heartbeat)
    waiting = await harness.add()
    delayed = await harness.add(schedule=Schedule(delay=1))
    held = await harness.add("held")
    await harness.claim(harness.source(types=("held",)))
    await harness.redis.rpush(harness.keys.waiting, "stranger", "stranger")
    await harness.redis.zadd(harness.keys.places, {"lost": 1, "more": 2})
    await harness.queue.coverage()
    await harness.queue.why(waiting)
    await harness.redis.rpush(harness.keys.waiting, "stranger", "stranger")
    await (await harness.upkeep()).reindex()
    await harness.queue.cancel(waiting, delayed, held)
    await harness.clock.advance(86_400)
    await (await harness.upkeep()).tidy()
