"""What a careless or hostile client can do to the line: it costs others nothing."""

import json

import pytest
from redis.exceptions import ResponseError

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
from tests.support.lossy import make_lossy
from waystation.core.errors import StoreUnreachable
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Settled
from waystation.routing import BackoffRule, Job, JobOptions, NewJob, Retry, Schedule, Target

ODD_IDS = ["a:b", "{x}", "*", 'quo"te', "back\\slash", "a/b", "%s%d", "💥", "é", "0", "x" * 500]
PAST_EXACT = 2**53 + 1


@pytest.mark.parametrize("id", ODD_IDS)
async def test_a_job_may_be_called_anything(harness: Harness, id: str) -> None:
    retry = Retry(attempts=2, backoff=BackoffRule(delay=0))
    assert await harness.add("odd/type", {"n": PAST_EXACT}, job_id=id, retry=retry) == id
    source = harness.source()

    for _ in range(2):
        assert await harness.fail(source) == id
    assert await harness.queue.dead_letters.retry(id) == 1
    (claim,) = await harness.claim(source)
    assert not await harness.settle(source, claim)

    assert claim.work.data == {"n": PAST_EXACT}
    assert await harness.queue.state(id) == "completed"


@pytest.mark.parametrize("id", ODD_IDS)
@pytest.mark.parametrize("ours", [True, False], ids=["our scheduler", "another one"])
async def test_a_schedule_may_be_called_anything(harness: Harness, id: str, ours: bool) -> None:
    await harness.add("t", {"id": id}, job_id=id, schedule=Schedule(cron="* * * * *"))
    await harness.clock.advance(60)
    if ours:
        await (await harness.upkeep()).fire_schedules()
    else:
        await Bridge(harness.redis).process_cron(harness.clock.now_ms())

    (claim,) = await harness.claim(harness.source(), 9)

    assert claim.id.startswith(f"{id}:")
    assert json.loads(claim.work.raw)["jobId"] == claim.id
    assert claim.work.data == {"id": id}


@pytest.mark.parametrize("ours", [True, False], ids=["our scheduler", "another one"])
async def test_a_schedule_written_with_escapes_fires_as_well(harness: Harness, ours: bool) -> None:
    id = "é/💥"
    schedule = {"cron": "* * * * *", "missed": "last"}
    data = json.dumps({"jobId": id, "type": "t", "schedule": schedule})
    await harness.redis.set(harness.keys.of(id).data, data)
    await harness.redis.zadd(harness.keys.cron, {id: harness.clock.now_ms()})

    if ours:
        await (await harness.upkeep()).fire_schedules()
    else:
        await Bridge(harness.redis).process_cron(harness.clock.now_ms())

    (claim,) = await harness.claim(harness.source(), 9)
    slot = harness.clock.now_ms()
    assert json.loads(claim.work.raw)["jobId"] == claim.id == f"{id}:{slot}"


async def test_a_schedule_that_has_no_name_keeps_none_from_firing(harness: Harness) -> None:
    data = b'{"jobId":"?","type":"t","schedule":{"cron":"* * * * *"}}'
    for id in (b"\xff", b"gone"):
        await harness.redis.zadd(harness.keys.cron, {id: 1})
    await harness.redis.set(b"bridge:jobs:data:\xff", data)
    good = await harness.add("t", schedule=Schedule(cron="* * * * *"))
    await harness.clock.advance(60)

    (fired,) = await (await harness.upkeep()).fire_schedules()

    assert fired.startswith(f"{good}:")
    assert await harness.redis.zrange(harness.keys.cron, 0, -1) == [good.encode()]


@pytest.mark.parametrize("ours", [True, False], ids=["our scheduler", "another one"])
async def test_half_a_millisecond_does_not_fire_twice_or_never(
    harness: Harness, ours: bool
) -> None:
    id = await harness.add("t", schedule=Schedule(cron="* * * * *"))
    await harness.clock.advance(60)
    await harness.redis.zadd(harness.keys.cron, {id: harness.clock.now_ms() - 100.5})
    upkeep = await harness.upkeep()

    for _ in range(3):
        if ours:
            await upkeep.fire_schedules()
        else:
            await Bridge(harness.redis).process_cron(harness.clock.now_ms())

    assert await harness.redis.llen(harness.keys.waiting) == 1


async def test_a_worker_of_others_may_be_called_anything(harness: Harness) -> None:
    await harness.add(job_id="a")
    name = "my  worker: 7 \n %d"
    bridge = Bridge(harness.redis)

    assert (await bridge.claim(name) or {})["jobId"] == "a"
    assert await harness.text("bridge:jobs:lock:a") == name
    await harness.redis.delete("bridge:jobs:lock:a")
    assert await harness.lapse() == ["a"]

    stalled = [each for each in await harness.events() if each["event"] == "stalled"]
    assert [(each["worker"], each["queue"]) for each in stalled] == [(name, "email")]


@pytest.mark.parametrize("given", ["", "gpu", "7", "null", '"gpu"', "[", '["a"] '])
async def test_a_list_that_is_none_is_refused_before_anything_is_claimed(
    harness: Harness, given: str
) -> None:
    await harness.add()
    script = Bridge(harness.redis)
    keys = ["bridge:jobs:waiting", "bridge:jobs:active", "bridge:queues:paused"]
    args = ["w1", "[]", given, "[]", 1, 30, "bridge:jobs:data:", "bridge:jobs:lock:", "x"]

    if given == '["a"] ':
        assert await script.run("claim_job", keys, args) is not None
        return
    with pytest.raises(ResponseError, match="INVALID_OPTION wanted a JSON list"):
        await script.run("claim_job", keys, args)
    assert await harness.redis.llen("bridge:jobs:waiting") == 1


async def test_a_job_put_off_for_ever_keeps_nobody_from_working(harness: Harness) -> None:
    await harness.redis.zadd(harness.keys.delayed, {"never": float("inf")})
    id = await harness.add()

    assert await harness.claim_ids(harness.source(), 9) == [id]


async def test_an_id_pushed_twice_runs_once_and_the_list_becomes_true_again(
    harness: Harness,
) -> None:
    """B-43"""
    bridge = Bridge(harness.redis)
    twice, once = await harness.add(), await harness.add()
    await harness.redis.rpush(harness.keys.waiting, twice)
    for _ in range(2):
        await bridge.dispatch("foreign")

    await (await harness.upkeep()).reindex()
    assert await harness.waiting() == [twice, once, "foreign"]

    source = harness.source()
    claims = await harness.claim(source, 9)
    assert [claim.id for claim in claims] == [twice, once, "foreign"]
    # Again, while it is held.
    await harness.redis.rpush(harness.keys.waiting, twice)
    assert not await harness.claim(source, 9)
    assert await harness.queue.state(twice) == "active"
    await source.settle([Settled(claim, Done()) for claim in claims], claim=0)
    assert await harness.redis.llen(harness.keys.waiting) == 0


@pytest.mark.parametrize("cap", ["many", "-5", "", "1e3", "nan"])
async def test_a_cap_that_makes_no_sense_stops_nothing(harness: Harness, cap: str) -> None:
    for key in (harness.keys.events_cap, harness.keys.deadletter_cap):
        await harness.redis.set(key, cap)
    await harness.add(retry=Retry(attempts=1))

    await harness.fail(harness.source())

    assert await harness.redis.scard(harness.keys.active) == 0


@pytest.mark.parametrize("record", ["", "garbage", "a b c d e f", "token 1 nan nan 9999 w"])
async def test_a_claim_that_cannot_be_read_is_taken_back(harness: Harness, record: str) -> None:
    id = await harness.add()
    source = harness.source()
    (claim,) = await harness.claim(source)
    await harness.redis.hset(harness.keys.claims, id, record)

    assert await harness.settle(source, claim)
    assert await harness.lapse() == [id]
    assert await harness.claim_ids(source) == [id]


async def test_dead_letters_that_others_wrote_can_be_tried_again_and_removed(
    harness: Harness,
) -> None:
    """B-26 B-66"""
    for name in ("a", "b"):
        await harness.redis.set(
            harness.keys.of(name).data, json.dumps({"jobId": name, "type": "t"})
        )
        await harness.redis.lpush(harness.keys.deadletter, name)
    letters = harness.queue.dead_letters

    assert [letter.id async for letter in letters] == ["b", "a"]
    assert await letters.retry("a", "a") == 1
    assert await letters.remove("b", "b") == 1
    assert await harness.redis.llen(harness.keys.deadletter) == 0
    assert await harness.claim_ids(harness.source(), 9) == ["a"]


async def test_a_dead_letter_of_another_client_says_what_is_known_of_it(
    harness: Harness,
) -> None:
    id, keys = await harness.add(), harness.keys.of("n")
    error = {"name": "NodeError", "message": "no"}
    for name, data in (("n", {"jobId": "n", "type": "t", "attempts": 3}), ("m", {"type": "t"})):
        await harness.redis.set(harness.keys.of(name).data, json.dumps(data))
        await harness.redis.set(harness.keys.of(name).status, "dead")
        await harness.redis.lpush(harness.keys.deadletter, name)
    result = {"success": False, "error": error, "completedAt": 7}
    await harness.redis.set(keys.result, json.dumps(result), ex=60)

    known, unknown = await harness.queue.dead_letters.list()

    assert (known.id, known.reason, known.attempts, known.failed_ms) == ("n", "FAILED", 3, 7)
    assert (known.error.name, known.error.message) == ("NodeError", "no")
    assert (unknown.id, unknown.reason, unknown.attempts) == ("m", "", 0)
    (why,) = await harness.queue.why("n")
    assert why.text == "dead after 3 attempts: FAILED, NodeError: no"
    await harness.queue.cancel(id)
    await harness.redis.flushdb()


async def test_coverage_takes_workers_as_others_registered_them(harness: Harness) -> None:
    await harness.add(target=Target(stack=("go",)))
    for name, about in (("my worker", '{"serverId":"other","stack":"go"}'), ("a:b", "garbage")):
        await harness.redis.sadd(harness.keys.registered, name)
        await harness.redis.set(harness.keys.worker_at(name).worker, about)
        await harness.redis.set(harness.keys.worker_at(name).heartbeat, 1, ex=30)

    (row,) = await harness.queue.coverage()

    assert row.workers == 1


async def test_thousands_of_needs_that_one_worker_can_meet_keep_their_turns(
    harness: Harness,
) -> None:
    """F-B1"""
    needs = [Target(capabilities=(f"customer:{number}",)) for number in range(700)]
    other = Target(capabilities=("gpu",))
    jobs = [
        NewJob("t", None, JobOptions(target=target, priority=9 if number % 50 == 7 else 5))
        for target in needs
        for number in (0, 7, 1)
    ]
    jobs[::100] = [NewJob("t", None, JobOptions(target=other))] * len(jobs[::100])
    ids = [job.id for job in await harness.queue.add_many(jobs)]
    source = harness.source(capabilities=["customer:*"])

    claimed: list[str] = []
    while page := await harness.claim_ids(source, 37):
        claimed += page

    fitting = [(job, id) for job, id in zip(jobs, ids, strict=True) if job.options.target != other]
    lanes = [[id for job, id in fitting if job.options.priority == each] for each in (9, 5)]
    assert claimed == lanes[0] + lanes[1]
    await harness.redis.flushdb()


async def test_thousands_of_jobs_may_be_asked_for_held_renewed_and_settled_at_once(
    harness: Harness,
) -> None:
    await harness.queue.add_many([NewJob("t")] * 9_000)
    source = harness.source()
    held: list[Claim[Job]] = []
    while page := await harness.claim(source, 100_000):
        held += page
    async with source.keeper() as extend:
        assert len(held) == 9_000
        assert not await extend(held)
    ends = [Settled(claim, Failed(OSError()) if n % 9 else Done()) for n, claim in enumerate(held)]

    reply = await source.settle(ends, claim=0)

    assert not reply.refused
    assert await harness.redis.scard(harness.keys.active) == 0
    await harness.redis.flushdb()


async def test_numbers_past_what_is_exact_do_no_harm(harness: Harness) -> None:
    """F-B21"""
    bridge = Bridge(harness.redis)
    await bridge.dispatch("a", priority=PAST_EXACT, createdAt=10**300, payload={"n": PAST_EXACT})
    await bridge.dispatch("b", rateLimit={"maxConcurrent": 10**400})
    await bridge.dispatch("c", attempts=-PAST_EXACT)
    await bridge.dispatch("d", attempts=2**64 - 1)
    source = harness.source()

    claims = await harness.claim(source, 9)

    assert [claim.id for claim in claims] == ["a", "b", "c", "d"]
    assert claims[0].work.data == {"n": PAST_EXACT}
    await source.settle([Settled(claim, Failed(OSError("no"))) for claim in claims], claim=0)
    assert await harness.redis.scard(harness.keys.active) == 0


async def test_an_id_that_is_no_text_ends_dead_and_harms_no_other(harness: Harness) -> None:
    data = b'{"type":"email","payload":{}}'
    await harness.redis.set(b"bridge:jobs:data:\xff", data)
    await harness.redis.rpush(harness.keys.waiting, b"\xff")
    good = await harness.add()

    assert await harness.claim_ids(harness.source(), 2) == [good]
    assert await harness.redis.lrange(harness.keys.deadletter, 0, -1) == [b"\xff"]
    [letter] = [each async for each in harness.queue.dead_letters]
    assert "UTF-8" in letter.error.message


async def test_what_comes_with_an_unreadable_job_is_not_lost_with_an_answer(
    harness: Harness,
) -> None:
    await harness.redis.set("bridge:jobs:data:bad", b'{"type":"email","retry":7}')
    await harness.redis.rpush(harness.keys.waiting, "bad")
    good = await harness.add()
    source = harness.source()
    make_lossy(source).lose_next(after=1)
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=2)

    assert await harness.claim_ids(source, 2) == [good]
    assert await harness.redis.lrange(harness.keys.deadletter, 0, -1) == [b"bad"]
