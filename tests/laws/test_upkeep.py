"""Upkeep serves what is good, whatever another program has put beside it."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pytest

from tests.bullmq.harness import Harness as Bullmq
from tests.bullmq.test_odd_json import odd_jobs
from tests.files.harness import Harness as Files
from tests.files.harness import harness_on as files_on
from tests.files.test_poison import ODD_JOBS
from tests.files.test_poison import foreign_jobs as files_jobs
from tests.laws.any_json import TEXTS
from tests.routing.harness import Harness as Routing
from tests.routing.harness import harness_on as routing_on
from tests.routing.test_any_json import INNER
from tests.routing.test_any_json import foreign_jobs as routing_jobs
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.scheduling import schedulers
from waystation.core.store.connection import connect
from waystation.files.options import ReaperOptions
from waystation.files.upkeep import UnmatchedSweep, promote_due
from waystation.routing import Schedule

MINUTE_S = 60
LONG = "1" + "0" * 400
"""A whole number that no float can hold."""
MANY = "0" * 5_000
"""More digits than Python makes a number of."""
ODD_BYTES = [
    b'{"jobId":"o","type":"t","schedule":{"cron":"* * * * *"},"\xff":1}',
    b'{"jobId":"o","type":"t","schedule":{"cron":"* * * * *"},"payload":"\xff"}',
    b'{"jobId":"o","type":"t","schedule":{"cron":"* * * * *"},"\\ud800":1}',
    b"\xff\xfe",
]
SOME = 7
"""Each so many-th of the long lists that others have; all of them are played there."""


def odd_schedules() -> Iterator[bytes]:
    """The JSON of schedules that are due, each with one odd member."""
    yield from ODD_BYTES
    for text in [*TEXTS, LONG, f'"{MANY} * * * *"', f'"{MANY}"', '"* * * * * * *"']:
        for member in INNER["schedule"]:
            cron = "" if member == "cron" else '"cron":"* * * * *",'
            schedule = f'{{{cron}"{member}":{text}}}'
            yield f'{{"jobId":"o","type":"t","schedule":{schedule}}}'.encode("utf-8", "replace")


def some_jobs() -> list[bytes]:
    return [
        *ODD_BYTES,
        *(text.encode("utf-8", "replace") for text in list(routing_jobs("o"))[::SOME]),
    ]


def few(odd: Sequence[bytes], most: int = 90) -> Iterator[Sequence[bytes]]:
    """As many as stand beside a good one in the same pass."""
    for first in range(0, len(odd), most):
        yield odd[first : first + most]


# --- routing -------------------------------------------------------------------------------------


async def store_jobs(harness: Routing, odd: Sequence[bytes]) -> list[Any]:
    ids = [f"odd-{at}" for at in range(len(odd))]
    await harness.redis.mset(
        {harness.keys.of(id).data: each for id, each in zip(ids, odd, strict=True)}
    )
    return ids


async def fires_schedules(harness: Routing, odd: Sequence[bytes]) -> bool:
    good = await harness.add(schedule=Schedule(cron="* * * * *"))
    due = float(await harness.store.ask("ZSCORE", harness.keys.cron, good))
    ids = await store_jobs(harness, odd)
    await harness.redis.zadd(harness.keys.cron, dict.fromkeys([*ids, b"\xff"], due))
    await harness.clock.advance(2 * MINUTE_S)
    fired = await (await harness.upkeep()).fire_schedules()
    assert await harness.redis.zcount(harness.keys.cron, 0, harness.clock.now_ms()) == 0
    dead = set(await harness.redis.lrange(harness.keys.deadletter, 0, -1))
    goes_on = set(await harness.redis.zrange(harness.keys.cron, 0, -1))
    # Nothing is lost: what is no schedule is a dead letter.
    assert {each.encode() for each in ids} <= dead | goes_on
    return any(instance.startswith(good) for instance in fired)


async def promotes_delayed(harness: Routing, odd: Sequence[bytes]) -> bool:
    good = await harness.add(schedule=Schedule(delay=1))
    due = float(await harness.store.ask("ZSCORE", harness.keys.delayed, good))
    ids = await store_jobs(harness, odd)
    await harness.redis.zadd(harness.keys.delayed, dict.fromkeys([*ids, b"\xff"], due))
    await harness.clock.advance(2)
    await (await harness.upkeep()).promote_due()
    return await harness.queue.state(good) == "waiting"


async def recovers_claimed(harness: Routing, odd: Sequence[bytes]) -> bool:
    good = await harness.add()
    await harness.claim(harness.source())
    ids = await store_jobs(harness, odd)
    await harness.redis.sadd(harness.keys.active, *ids, b"\xff")
    for id, record in zip(ids, odd, strict=True):
        await harness.redis.hset(harness.keys.claims, id, record)
        await harness.redis.zadd(harness.keys.leases, {id: 0})
    return good in await harness.lapse()


async def recovers_foreign(harness: Routing, odd: Sequence[bytes]) -> bool:
    """Jobs that others hold with plain commands, whose locks are over."""
    good = await harness.add()
    await harness.redis.lpop(harness.keys.waiting)
    await (await harness.upkeep()).reindex()
    ids = await store_jobs(harness, odd)
    await harness.redis.sadd(harness.keys.active, good, *ids, b"\xff")
    return good in await (await harness.upkeep()).recover()


async def reindexes(harness: Routing, odd: Sequence[bytes]) -> bool:
    ids = await store_jobs(harness, odd)
    await harness.redis.set(harness.keys.of("good").data, b'{"jobId":"good","type":"t"}')
    await harness.redis.rpush(harness.keys.waiting, *ids, b"\xff", "good")
    await (await harness.upkeep()).reindex()
    return await harness.store.ask("ZSCORE", harness.keys.places, "good") is not None


async def releases(harness: Routing, odd: Sequence[bytes]) -> bool:
    first = await harness.add()
    good = await harness.add(depends_on=(first,))
    (claim,) = await harness.claim(harness.source())
    await harness.redis.lpush(harness.keys.ended, *odd)
    await harness.redis.sadd(harness.keys.awaited, *odd)
    await harness.settle(harness.source(), claim)
    upkeep = await harness.upkeep()
    await upkeep.find_ended()
    await upkeep.release()
    return await harness.queue.state(good) == "waiting"


async def counts_running(harness: Routing, odd: Sequence[bytes]) -> bool:
    await harness.redis.hset(harness.keys.limits, "t", '{"maxConcurrent":1}')
    await harness.redis.set("bridge:ratelimit:concurrent:t", 5)
    await harness.redis.hset(harness.keys.limits, mapping={each: each for each in odd})
    await harness.redis.zadd(harness.keys.heads, dict.fromkeys(odd, 1))
    await harness.redis.hset(harness.keys.claims, mapping={each: each for each in odd})
    return "t" in await (await harness.upkeep()).reconcile()


async def forgets_workers(harness: Routing, odd: Sequence[bytes]) -> bool:
    for at, about in enumerate(odd):
        await harness.redis.sadd(harness.keys.registered, f"w{at}")
        await harness.redis.set(harness.keys.worker_at(f"w{at}").worker, about)
    await harness.redis.sadd(harness.keys.registered, "good", b"\xff")
    await harness.redis.set(harness.keys.worker_at("good").worker, '{"lastSeen":1}')
    return "good" in await (await harness.upkeep()).tidy()


RoutingDuty: TypeAlias = Callable[[Routing, Sequence[bytes]], Awaitable[bool]]
ROUTING: list[tuple[RoutingDuty, Callable[[], Sequence[bytes]]]] = [
    (fires_schedules, lambda: list(odd_schedules())),
    *(
        (duty, some_jobs)
        for duty in (
            promotes_delayed, recovers_claimed, recovers_foreign, reindexes, releases,
            counts_running, forgets_workers,
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("duty", "odd"), ROUTING, ids=[duty.__name__ for duty, _ in ROUTING])
async def test_routing_serves_the_good_one_in_the_same_pass(
    duty: RoutingDuty, odd: Callable[[], Sequence[bytes]], redis_url: str
) -> None:
    for some in few(odd()):
        async with routing_on(redis_url) as harness:
            assert await duty(harness, some), some
            await harness.redis.flushdb()


# --- files ---------------------------------------------------------------------------------------

GOOD = "/inbox/good.pdf"


def odd_files() -> list[bytes]:
    return [*ODD_JOBS, *ODD_BYTES, *list(files_jobs())[::SOME]]


def odd_beats() -> list[bytes]:
    texts = [*TEXTS, LONG, MANY, "[" * 5_000 + "]" * 5_000]
    members = [f'{{"{name}":{text}}}' for text in texts for name in ("ts", "handlers", "other")]
    return [each.encode("utf-8", "replace") for each in (*members, *texts)]


async def reaps(harness: Files, odd: Sequence[bytes]) -> bool:
    id = await harness.add(GOOD)
    held = harness.keys.of("w").processing
    await harness.redis.rename(harness.keys.queues[1], held)
    await harness.redis.lpush(held, *odd)
    await harness.redis.sadd(harness.keys.workers, "w")
    await harness.reaper(options=ReaperOptions(count=len(odd) + 1, budget=60)).reap()
    return await harness.where(id) == ["waiting"]


async def promotes_retries(harness: Files, odd: Sequence[bytes]) -> bool:
    id = await harness.add(GOOD)
    (raw,) = await harness.redis.lrange(harness.keys.queues[1], 0, -1)
    await harness.redis.delete(harness.keys.queues[1])
    await harness.redis.zadd(harness.keys.lanes[3], dict.fromkeys([*odd, raw], 1))
    await promote_due(harness.redis, harness.keys, harness.options, now_ms=harness.clock.now_ms())
    return await harness.where(id) == ["waiting"]


async def sweeps(harness: Files, odd: Sequence[bytes]) -> bool:
    """Beside files that are none, and workers whose heartbeats say nothing."""
    id = await harness.add(GOOD)
    (raw,) = await harness.redis.lrange(harness.keys.queues[1], 0, -1)
    await harness.redis.delete(harness.keys.queues[1])
    for at, each in enumerate(odd):
        await harness.redis.xadd(harness.keys.unmatched, {"job": each, "lane": each})
        await harness.redis.sadd(harness.keys.workers, f"w{at}")
        await harness.redis.set(harness.keys.of(f"w{at}").heartbeat, each, ex=600)
    await harness.redis.xadd(harness.keys.unmatched, {"job": raw, "lane": "2"})
    harness.set(no_handler_after=0)
    await UnmatchedSweep(harness.redis, harness.keys, harness.options).sweep()
    return await harness.where(id) == ["failed"]


FilesDuty: TypeAlias = Callable[[Files, Sequence[bytes]], Awaitable[bool]]
FILES: list[tuple[FilesDuty, Callable[[], Sequence[bytes]]]] = [
    (reaps, odd_files),
    (promotes_retries, odd_files),
    (sweeps, lambda: [*odd_files(), *odd_beats()]),
]


@pytest.mark.parametrize(("duty", "odd"), FILES, ids=[duty.__name__ for duty, _ in FILES])
async def test_files_serves_the_good_one_in_the_same_pass(
    duty: FilesDuty, odd: Callable[[], Sequence[bytes]], redis_url: str
) -> None:
    for some in few(odd()):
        async with files_on(redis_url) as harness:
            assert await duty(harness, some), some
            await harness.redis.flushdb()


# --- bullmq --------------------------------------------------------------------------------------

ODD_TEXTS = [*TEXTS, LONG, f"{MANY} * * * *", "* * * * *", "1e300", "-inf", "253402300799000"]
FIELDS = ("ic", "every", "pattern", "tz", "limit", "startDate", "endDate", "offset", "opts", "name")


async def puts_stalled_back(harness: Bullmq) -> bool:
    redis: Any = harness.redis
    good = await harness.add()
    await harness.claim_one()
    for at, fields in enumerate(list(odd_jobs())[::SOME]):
        await redis.hset(harness.keys.of(f"o{at}").job, mapping=fields)
        await redis.lpush(harness.keys.active, f"o{at}")
    await redis.lpush(harness.keys.active, b"\xff")
    await redis.delete(harness.keys.of(good).lock, harness.keys.stalled_check)
    await harness.check_stalled()
    await redis.delete(harness.keys.stalled_check)
    return good in await harness.check_stalled()


async def goes_on_with_schedules(harness: Bullmq) -> bool:
    redis: Any = harness.redis
    odd = [{"name": "n", "ic": "1", "pattern": "* * * * *", field: text}
           for text in ODD_TEXTS for field in FIELDS]  # fmt: skip
    odd += [{"name": "n", "ic": "1", "every": each} for each in ("1e300", LONG, "-5", "0")]
    records = {f"{harness.keys.base}repeat:o{at}": each for at, each in enumerate(odd)}
    for key, each in records.items():
        await redis.hset(key, mapping={k: v.encode("utf-8", "replace") for k, v in each.items()})
    scores: dict[Any, float] = {f"o{at}": float(at) for at in range(len(odd))}
    # The job of one's last slot, and what is stored of another, under keys of another type.
    await redis.set(f"{harness.keys.base}repeat:no hash", "text")
    scores["no hash"] = 1
    await redis.set(harness.keys.of("repeat:o7:7").job, "no hash")
    await redis.hset(
        f"{harness.keys.base}repeat:good", mapping={"name": "n", "ic": 1, "every": 60_000}
    )
    await redis.zadd(harness.keys.repeat, {**scores, b"\xff": 1, "low": float("-inf"), "good": 1e9})
    made = await schedulers.advance_overdue(harness.store.hot, harness.keys)
    return any(id.startswith("repeat:good:") for id in made)


BULLMQ = [puts_stalled_back, goes_on_with_schedules]


@pytest.mark.parametrize("duty", BULLMQ, ids=lambda each: each.__name__)
async def test_bullmq_serves_the_good_one_in_the_same_pass(
    duty: Callable[[Bullmq], Awaitable[bool]], redis_url: str
) -> None:
    async with await connect(redis_url) as store:
        harness = Bullmq(store, QueueKeys("mail"))
        assert await duty(harness)
        await harness.close()
        await harness.redis.flushdb()
