"""A namespace with its workers, limits, schedules, dead letters and foreign clients."""

import json
from typing import Any

from tests.routing.hands import Hands, hands_on
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
        async with hands_on(url) as hands:
            await hands.redis.flushdb()
            await part(hands)


async def dispatch(hands: Hands) -> None:
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
        await hands.add(**options)
    await foreign(hands, "pushed")
    await hands.add()


async def foreign(hands: Hands, id: str, **more: Any) -> None:
    """Put a job into the list as a client in another language does."""
    data = json.dumps({"jobId": id, "type": "email", "payload": {}, **more})
    await hands.redis.set(hands.keys.of(id).data, data)
    await hands.redis.rpush(hands.keys.waiting, id)


async def settle(hands: Hands) -> None:
    source = hands.source()
    await hands.claim(source)
    for retry in (AT_ONCE, LATER, ONCE):
        await hands.add(retry=retry)
        await hands.fail(source)
        await hands.claim(source)
    for _ in range(4):
        await hands.add(priority=9)
        await hands.add("other")
    held = await hands.claim(source, 6)
    outcomes = [Done(1), Returned(), Done(2), Failed(RuntimeError("no")), Returned()]
    settled = [Settled(each, outcome) for each, outcome in zip(held, outcomes, strict=False)]
    await source.settle(settled, claim=2)
    # Somebody has taken away what is known of the jobs that are held.
    await hands.redis.delete(hands.keys.routes)
    await held[5].work.update_progress(50, "half")
    async with source.keeper() as extend:
        await extend(held)
    await hands.add(schedule=Schedule(delay=0.01))
    await hands.clock.advance(1)
    await hands.claim(source, 20)
    # What others have pushed, of which one says nothing and one has gone.
    await foreign(hands, "pushed")
    await foreign(hands, "urgent", priority=9)
    await foreign(hands, "odd", type=7)
    await hands.redis.rpush(hands.keys.waiting, "gone")
    await hands.claim(source, 20)


async def limit(hands: Hands) -> None:
    source = hands.source()
    await hands.queue.limits.set("email", Limit(max_concurrent=2, max_per_minute=3))
    for _ in range(5):
        await hands.add()
    first, second = await hands.claim(source, 5)
    await source.settle([Settled(first, Done(1)), Settled(second, Returned())], claim=2)
    await (await hands.upkeep()).reconcile()
    await hands.redis.set(hands.keys.of_type("email").concurrent, 7)
    await (await hands.upkeep()).reconcile()
    await hands.queue.limits.remove("email")
    await hands.queue.pause("email")
    await hands.claim(source)
    await hands.queue.resume("email")
    await hands.queue.limits.set("email", Limit(max_concurrent=9))
    held = await hands.claim(source, 3)
    await hands.queue.cancel(*(claim.id for claim in held))
    async with source.keeper() as extend:
        await extend(held)
    await source.settle([Settled(held[0], Done(1))], claim=0)
    await hands.lapse()


async def depend(hands: Hands) -> None:
    source = hands.source()
    for more in ({}, {"schedule": Schedule(delay=1)}):
        first = await hands.add()
        second = await hands.add()
        await hands.add("after", depends_on=(first, second), **more)
        for held in await hands.claim(source, 2):
            await hands.settle(source, held)
        await hands.claim(source, 9)
    first = await hands.add()
    dead = await hands.add("after", depends_on=(first,))
    await hands.queue.cancel(first)
    await hands.add(job_id=first)
    await hands.queue.dead_letters.retry(dead)
    for status in ("completed", ""):
        other = await hands.add()
        await hands.add("after", depends_on=(other,))
        await hands.redis.delete(hands.keys.of(other).data, hands.keys.of(other).status)
        await hands.redis.set(hands.keys.of(other).status, status)
    upkeep = await hands.upkeep()
    await upkeep.find_ended()
    await upkeep.release()


async def recover(hands: Hands) -> None:
    source = hands.source()
    for _ in range(3):
        await hands.add()
    await hands.add(priority=9)
    await hands.claim(source, 3)
    await hands.lapse()
    await hands.claim(source, 3)
    await hands.clock.advance(60)
    await (await hands.upkeep(SchedulerOptions(max_stalls=0))).recover()
    # A worker that has gone silent, and a job whose data is gone.
    await registry.beat(hands.redis, hands.keys, Profile(server="w1"), now=hands.clock.now_ms())
    await hands.add()
    (held,) = await hands.claim(source)
    await hands.redis.delete(hands.keys.worker_at("w1").heartbeat)
    await (await hands.upkeep()).recover()
    (held,) = await hands.claim(source)
    await hands.redis.delete(hands.keys.of(held.id).data)
    await hands.lapse()
    # What others hold by plain commands.
    await hands.add(job_id="plain")
    await hands.redis.lrem(hands.keys.waiting, 1, "plain")
    await hands.redis.sadd(hands.keys.active, "plain")
    await hands.lapse()


async def bury(hands: Hands) -> None:
    source = hands.source()
    ids: list[str] = []
    for _ in range(3):
        await hands.add(retry=ONCE)
        ids.append(await hands.fail(source))
    await hands.add("after", depends_on=(ids[-1],))
    await hands.redis.set(hands.keys.deadletter_cap, 2)
    await hands.add(retry=ONCE)
    await hands.fail(source)
    dead = hands.queue.dead_letters
    letters = [letter async for letter in dead]
    await dead.retry(letters[0].id)
    await dead.remove(letters[1].id)


async def schedule(hands: Hands) -> None:
    await hands.add(schedule=Schedule(cron="* * * * *"))
    await hands.add(schedule=Schedule(delay=1))
    for _ in range(2):
        await hands.clock.advance(61)
        upkeep = await hands.upkeep()
        await upkeep.promote_due()
        await upkeep.fire_schedules()
    await hands.clock.advance(600)
    await scripts.process_cron(hands.redis, hands.keys, now=hands.clock.now_ms(), batch=10)


async def bridge(hands: Hands) -> None:
    for at in range(3):
        await hands.add(job_id=f"job-{at}")
    await foreign(hands, "pushed")
    for id in ("job-0", "job-1"):
        await scripts.claim_job(
            hands.redis,
            hands.keys,
            worker="node",
            stack='["node"]',
            capabilities="[]",
            region="[]",
            now=hands.clock.now_ms(),
            lock_ttl=30,
            data_prefix=hands.keys.data_prefix,
            lock_prefix=f"{hands.keys.namespace}:jobs:lock:",
            limit_prefix=f"{hands.keys.namespace}:ratelimit:concurrent:",
        )
        await scripts.release_lock(
            hands.redis, hands.keys.of(id, type="email"), worker="node", id=id
        )
    await hands.redis.set(hands.keys.of("plain").lock, "node")
    await hands.redis.sadd(hands.keys.active, "plain")
    await hands.redis.set(hands.keys.of_type("email").concurrent, 1)
    await scripts.release_lock(
        hands.redis, hands.keys.of("plain", type="email"), worker="node", id="plain"
    )
    await hands.add(schedule=Schedule(delay=0.01))
    await hands.clock.advance(1)
    await scripts.process_delayed(hands.redis, hands.keys, now=hands.clock.now_ms())


async def look(hands: Hands) -> None:
    profiles = [Profile(server="w1", types=types).matched() for types in ((), ("other",))]
    await foreign(hands, "pushed")
    await foreign(hands, "odd", type=7)
    await hands.redis.rpush(hands.keys.waiting, "gone")
    await hands.add(schedule=Schedule(delay=0.01))
    await hands.clock.advance(1)
    await scripts.look(
        hands.redis,
        hands.keys,
        namespace=hands.keys.namespace,
        now=hands.clock.now_ms(),
        profiles=profiles,
    )


async def tend(hands: Hands) -> None:
    profile = Profile(server="w1")
    for _ in range(2):
        await registry.beat(hands.redis, hands.keys, profile, now=hands.clock.now_ms())
    await registry.leave(hands.redis, hands.keys, profile, now=hands.clock.now_ms())
    await registry.beat(hands.redis, hands.keys, profile, now=hands.clock.now_ms())
    await hands.redis.delete(hands.keys.worker_at("w1").heartbeat)
    waiting = await hands.add()
    delayed = await hands.add(schedule=Schedule(delay=1))
    held = await hands.add("held")
    await hands.claim(hands.source(types=("held",)))
    await hands.redis.rpush(hands.keys.waiting, "stranger", "stranger")
    await hands.redis.zadd(hands.keys.places, {"lost": 1, "more": 2})
    await hands.queue.coverage()
    await hands.queue.why(waiting)
    await hands.redis.rpush(hands.keys.waiting, "stranger", "stranger")
    await (await hands.upkeep()).reindex()
    await hands.queue.cancel(waiting, delayed, held)
    await hands.clock.advance(86_400)
    await (await hands.upkeep()).tidy()
