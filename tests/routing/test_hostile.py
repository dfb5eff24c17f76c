"""What a careless or hostile client can do to the line: it costs others nothing."""

import json

import pytest
from redis.exceptions import ResponseError

from tests.routing.bridge import Bridge
from tests.routing.hands import Hands
from tests.support.deaf import made_deaf
from waystation.core.errors import NotFound, StoreUnreachable
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Settled
from waystation.routing import BackoffRule, Job, JobOptions, NewJob, Retry, Schedule, Target

ODD_IDS = ["a:b", "{x}", "*", 'quo"te', "back\\slash", "a/b", "%s%d", "💥", "é", "0", "x" * 500]
PAST_EXACT = 2**53 + 1


@pytest.mark.parametrize("id", ODD_IDS)
async def test_a_job_may_be_called_anything(hands: Hands, id: str) -> None:
    retry = Retry(attempts=2, backoff=BackoffRule(delay=0))
    assert await hands.add("odd/type", {"n": PAST_EXACT}, job_id=id, retry=retry) == id
    source = hands.source()

    for _ in range(2):
        assert await hands.fail(source) == id
    assert await hands.queue.dead_letters.retry(id) == 1
    (claim,) = await hands.claim(source)
    assert not await hands.settle(source, claim)

    assert claim.work.data == {"n": PAST_EXACT}
    assert await hands.queue.state(id) == "completed"


@pytest.mark.parametrize("id", ODD_IDS)
@pytest.mark.parametrize("ours", [True, False], ids=["our scheduler", "another one"])
async def test_a_schedule_may_be_called_anything(hands: Hands, id: str, ours: bool) -> None:
    await hands.add("t", {"id": id}, job_id=id, schedule=Schedule(cron="* * * * *"))
    await hands.clock.advance(60)
    if ours:
        await (await hands.upkeep()).fire_schedules()
    else:
        await Bridge(hands.redis).process_cron(hands.clock.now_ms())

    (claim,) = await hands.claim(hands.source(), 9)

    assert claim.id.startswith(f"{id}:")
    assert json.loads(claim.work.raw)["jobId"] == claim.id
    assert claim.work.data == {"id": id}


@pytest.mark.parametrize("ours", [True, False], ids=["our scheduler", "another one"])
async def test_a_schedule_written_with_escapes_fires_as_well(hands: Hands, ours: bool) -> None:
    id = "é/💥"
    schedule = {"cron": "* * * * *", "missed": "last"}
    data = json.dumps({"jobId": id, "type": "t", "schedule": schedule})
    await hands.redis.set(hands.keys.of(id).data, data)
    await hands.redis.zadd(hands.keys.cron, {id: hands.clock.now_ms()})

    if ours:
        await (await hands.upkeep()).fire_schedules()
    else:
        await Bridge(hands.redis).process_cron(hands.clock.now_ms())

    (claim,) = await hands.claim(hands.source(), 9)
    slot = hands.clock.now_ms()
    assert json.loads(claim.work.raw)["jobId"] == claim.id == f"{id}:{slot}"


async def test_a_schedule_that_has_no_name_keeps_none_from_firing(hands: Hands) -> None:
    data = b'{"jobId":"?","type":"t","schedule":{"cron":"* * * * *"}}'
    for id in (b"\xff", b"gone"):
        await hands.redis.zadd(hands.keys.cron, {id: 1})
    await hands.redis.set(b"bridge:jobs:data:\xff", data)
    good = await hands.add("t", schedule=Schedule(cron="* * * * *"))
    await hands.clock.advance(60)

    (fired,) = await (await hands.upkeep()).fire_schedules()

    assert fired.startswith(f"{good}:")
    assert await hands.redis.zrange(hands.keys.cron, 0, -1) == [good.encode()]


@pytest.mark.parametrize("ours", [True, False], ids=["our scheduler", "another one"])
async def test_half_a_millisecond_does_not_fire_twice_or_never(hands: Hands, ours: bool) -> None:
    id = await hands.add("t", schedule=Schedule(cron="* * * * *"))
    await hands.clock.advance(60)
    await hands.redis.zadd(hands.keys.cron, {id: hands.clock.now_ms() - 100.5})
    upkeep = await hands.upkeep()

    for _ in range(3):
        if ours:
            await upkeep.fire_schedules()
        else:
            await Bridge(hands.redis).process_cron(hands.clock.now_ms())

    assert await hands.redis.llen(hands.keys.waiting) == 1


async def test_a_worker_of_others_may_be_called_anything(hands: Hands) -> None:
    await hands.add(job_id="a")
    name = "my  worker: 7 \n %d"
    bridge = Bridge(hands.redis)

    assert (await bridge.claim(name) or {})["jobId"] == "a"
    assert await hands.text("bridge:jobs:lock:a") == name
    await hands.redis.delete("bridge:jobs:lock:a")
    assert await hands.lapse() == ["a"]

    stalled = [each for each in await hands.events() if each["event"] == "stalled"]
    assert [(each["worker"], each["queue"]) for each in stalled] == [(name, "email")]


@pytest.mark.parametrize("given", ["", "gpu", "7", "null", '"gpu"', "[", '["a"] '])
async def test_a_list_that_is_none_is_refused_before_anything_is_claimed(
    hands: Hands, given: str
) -> None:
    await hands.add()
    script = Bridge(hands.redis)
    keys = ["bridge:jobs:waiting", "bridge:jobs:active", "bridge:queues:paused"]
    args = ["w1", "[]", given, "[]", 1, 30, "bridge:jobs:data:", "bridge:jobs:lock:", "x"]

    if given == '["a"] ':
        assert await script.run("claim_job", keys, args) is not None
        return
    with pytest.raises(ResponseError, match="INVALID_OPTION wanted a JSON list"):
        await script.run("claim_job", keys, args)
    assert await hands.redis.llen("bridge:jobs:waiting") == 1


async def test_a_job_put_off_for_ever_keeps_nobody_from_working(hands: Hands) -> None:
    await hands.redis.zadd(hands.keys.delayed, {"never": float("inf")})
    id = await hands.add()

    assert await hands.claim_ids(hands.source(), 9) == [id]


async def test_an_id_pushed_twice_runs_once_and_the_list_becomes_true_again(hands: Hands) -> None:
    """B-43"""
    bridge = Bridge(hands.redis)
    twice, once = await hands.add(), await hands.add()
    await hands.redis.rpush(hands.keys.waiting, twice)
    for _ in range(2):
        await bridge.dispatch("foreign")

    await (await hands.upkeep()).reindex()
    assert await hands.waiting() == [twice, once, "foreign"]

    source = hands.source()
    claims = await hands.claim(source, 9)
    assert [claim.id for claim in claims] == [twice, once, "foreign"]
    # Again, while it is held.
    await hands.redis.rpush(hands.keys.waiting, twice)
    assert not await hands.claim(source, 9)
    assert await hands.queue.state(twice) == "active"
    await source.settle([Settled(claim, Done()) for claim in claims], claim=0)
    assert await hands.redis.llen(hands.keys.waiting) == 0


@pytest.mark.parametrize("cap", ["many", "-5", "", "1e3", "nan"])
async def test_a_cap_that_makes_no_sense_stops_nothing(hands: Hands, cap: str) -> None:
    for key in (hands.keys.events_cap, hands.keys.deadletter_cap):
        await hands.redis.set(key, cap)
    await hands.add(retry=Retry(attempts=1))

    await hands.fail(hands.source())

    assert await hands.redis.scard(hands.keys.active) == 0


@pytest.mark.parametrize("record", ["", "garbage", "a b c d e f", "token 1 nan nan 9999 w"])
async def test_a_claim_that_cannot_be_read_is_taken_back(hands: Hands, record: str) -> None:
    id = await hands.add()
    source = hands.source()
    (claim,) = await hands.claim(source)
    await hands.redis.hset(hands.keys.claims, id, record)

    assert await hands.settle(source, claim)
    assert await hands.lapse() == [id]
    assert await hands.claim_ids(source) == [id]


async def test_dead_letters_that_others_wrote_can_be_tried_again_and_removed(hands: Hands) -> None:
    """B-26 B-66"""
    for name in ("a", "b"):
        await hands.redis.set(hands.keys.of(name).data, json.dumps({"jobId": name, "type": "t"}))
        await hands.redis.lpush(hands.keys.deadletter, name)
    letters = hands.queue.dead_letters

    assert [letter.id async for letter in letters] == ["b", "a"]
    assert await letters.retry("a", "a") == 1
    assert await letters.remove("b", "b") == 1
    assert await hands.redis.llen(hands.keys.deadletter) == 0
    assert await hands.claim_ids(hands.source(), 9) == ["a"]


async def test_a_dead_letter_of_another_client_says_what_is_known_of_it(
    hands: Hands,
) -> None:
    id, keys = await hands.add(), hands.keys.of("n")
    error = {"name": "NodeError", "message": "no"}
    for name, data in (("n", {"jobId": "n", "type": "t", "attempts": 3}), ("m", {"type": "t"})):
        await hands.redis.set(hands.keys.of(name).data, json.dumps(data))
        await hands.redis.set(hands.keys.of(name).status, "dead")
        await hands.redis.lpush(hands.keys.deadletter, name)
    result = {"success": False, "error": error, "completedAt": 7}
    await hands.redis.set(keys.result, json.dumps(result), ex=60)

    known, unknown = await hands.queue.dead_letters.list()

    assert (known.id, known.reason, known.attempts, known.failed_ms) == ("n", "FAILED", 3, 7)
    assert (known.error.name, known.error.message) == ("NodeError", "no")
    assert (unknown.id, unknown.reason, unknown.attempts) == ("m", "", 0)
    (why,) = await hands.queue.why("n")
    assert why.text == "dead after 3 attempts: FAILED, NodeError: no"
    await hands.queue.cancel(id)
    await hands.redis.flushdb()


async def test_a_job_cannot_wait_for_one_that_was_cancelled(hands: Hands) -> None:
    first = await hands.add()
    await hands.queue.cancel(first)

    with pytest.raises(NotFound, match=f"depends on job {first}, which is unknown, or was canc"):
        await hands.add(depends_on=(first,))
    assert await hands.redis.llen(hands.keys.waiting) == 0


async def test_coverage_takes_workers_as_others_registered_them(hands: Hands) -> None:
    await hands.add(target=Target(stack=("go",)))
    for name, about in (("my worker", '{"serverId":"other","stack":"go"}'), ("a:b", "garbage")):
        await hands.redis.sadd(hands.keys.registered, name)
        await hands.redis.set(hands.keys.worker_at(name).worker, about)
        await hands.redis.set(hands.keys.worker_at(name).heartbeat, 1, ex=30)

    (row,) = await hands.queue.coverage()

    assert row.workers == 1


async def test_thousands_of_needs_that_one_worker_can_meet_keep_their_turns(hands: Hands) -> None:
    """F-B1"""
    needs = [Target(capabilities=(f"customer:{number}",)) for number in range(700)]
    other = Target(capabilities=("gpu",))
    jobs = [
        NewJob("t", None, JobOptions(target=target, priority=9 if number % 50 == 7 else 5))
        for target in needs
        for number in (0, 7, 1)
    ]
    jobs[::100] = [NewJob("t", None, JobOptions(target=other))] * len(jobs[::100])
    ids = [job.id for job in await hands.queue.add_many(jobs)]
    source = hands.source(capabilities=["customer:*"])

    claimed: list[str] = []
    while page := await hands.claim_ids(source, 37):
        claimed += page

    fitting = [(job, id) for job, id in zip(jobs, ids, strict=True) if job.options.target != other]
    lanes = [[id for job, id in fitting if job.options.priority == each] for each in (9, 5)]
    assert claimed == lanes[0] + lanes[1]
    await hands.redis.flushdb()


async def test_thousands_of_jobs_may_be_asked_for_held_renewed_and_settled_at_once(
    hands: Hands,
) -> None:
    await hands.queue.add_many([NewJob("t")] * 9_000)
    source = hands.source()
    held: list[Claim[Job]] = []
    while page := await hands.claim(source, 100_000):
        held += page
    async with source.keeper() as extend:
        assert len(held) == 9_000
        assert not await extend(held)
    ends = [Settled(claim, Failed(OSError()) if n % 9 else Done()) for n, claim in enumerate(held)]

    reply = await source.settle(ends, claim=0)

    assert not reply.refused
    assert await hands.redis.scard(hands.keys.active) == 0
    await hands.redis.flushdb()


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


async def test_an_error_without_words_is_filed_like_any_other(hands: Hands) -> None:
    id = await hands.add(retry=Retry(attempts=1))
    await hands.fail(hands.source(), Mute())

    result = await hands.queue.result(id)
    assert result is not None
    assert result.error is not None
    assert result.error.name == "Mute"


async def test_numbers_past_what_is_exact_do_no_harm(hands: Hands) -> None:
    """F-B21"""
    bridge = Bridge(hands.redis)
    await bridge.dispatch("a", priority=PAST_EXACT, createdAt=10**300, payload={"n": PAST_EXACT})
    await bridge.dispatch("b", rateLimit={"maxConcurrent": 10**400})
    await bridge.dispatch("c", attempts=-PAST_EXACT)
    await bridge.dispatch("d", attempts=2**64 - 1)
    source = hands.source()

    claims = await hands.claim(source, 9)

    assert [claim.id for claim in claims] == ["a", "b", "c", "d"]
    assert claims[0].work.data == {"n": PAST_EXACT}
    await source.settle([Settled(claim, Failed(OSError("no"))) for claim in claims], claim=0)
    assert await hands.redis.scard(hands.keys.active) == 0


async def test_an_id_that_is_no_text_ends_dead_and_harms_no_other(hands: Hands) -> None:
    data = b'{"type":"email","payload":{}}'
    await hands.redis.set(b"bridge:jobs:data:\xff", data)
    await hands.redis.rpush(hands.keys.waiting, b"\xff")
    good = await hands.add()

    assert await hands.claim_ids(hands.source(), 2) == [good]
    assert await hands.redis.lrange(hands.keys.deadletter, 0, -1) == [b"\xff"]
    [letter] = [each async for each in hands.queue.dead_letters]
    assert "UTF-8" in letter.error.message


async def test_what_comes_with_an_unreadable_job_is_not_lost_with_an_answer(hands: Hands) -> None:
    await hands.redis.set("bridge:jobs:data:bad", b'{"type":"email","retry":7}')
    await hands.redis.rpush(hands.keys.waiting, "bad")
    good = await hands.add()
    source = hands.source()
    made_deaf(source).lose_next(after=1)
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=2)

    assert await hands.claim_ids(source, 2) == [good]
    assert await hands.redis.lrange(hands.keys.deadletter, 0, -1) == [b"bad"]
