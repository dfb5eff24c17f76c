"""How much of one type may run, at once and in a minute."""

import pytest

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
from waystation.core.errors import InvalidOption
from waystation.core.outcome import Done, Failed, Returned
from waystation.core.runtime.claim import Settled
from waystation.routing import BackoffRule, Limit, Retry


async def test_no_more_run_at_once_than_the_limit_says(harness: Harness) -> None:
    """B-28 B-45"""
    await harness.queue.limits.set("email", Limit(max_concurrent=2))
    ids = [await harness.add() for _ in range(4)]
    other = await harness.add("sms")
    source = harness.source()

    claims = await harness.claim(source, 9)
    assert [claim.id for claim in claims] == [ids[0], ids[1], other]
    assert await harness.text("bridge:ratelimit:concurrent:email") == "2"
    reply = await source.settle([Settled(claims[0], Done())], claim=9)

    assert [claim.id for claim in reply.claims] == [ids[2]]


@pytest.mark.parametrize("end", ["done", "retry", "dead", "returned", "lapsed", "cancelled"])
async def test_every_end_of_a_claim_gives_its_place_back(harness: Harness, end: str) -> None:
    """B-28 F-B2"""
    await harness.queue.limits.set("email", Limit(max_concurrent=1))
    retry = Retry(attempts=1 if end == "dead" else 5, backoff=BackoffRule(delay=0))
    id = await harness.add(retry=retry)
    source = harness.source()
    (claim,) = await harness.claim(source)
    match end:
        case "done":
            await harness.settle(source, claim)
        case "retry" | "dead":
            await harness.settle(source, claim, Failed(RuntimeError("no")))
        case "returned":
            await harness.settle(source, claim, Returned())
        case "cancelled":
            await harness.queue.cancel(id)
            assert await harness.settle(source, claim)
        case _:
            await harness.lapse()

    assert await harness.text("bridge:ratelimit:concurrent:email") is None
    await harness.add()
    assert await harness.claim(source)


async def test_a_type_without_a_limit_is_not_counted(harness: Harness) -> None:
    """F-B2"""
    await harness.add()
    await harness.claim(harness.source())

    assert await harness.text("bridge:ratelimit:concurrent:email") is None


async def test_a_count_that_is_wrong_is_put_right(harness: Harness) -> None:
    """F-B2"""
    await harness.queue.limits.set("email", Limit(max_concurrent=2))
    for _ in range(3):
        await harness.add()
    source = harness.source()
    await harness.claim(source)
    await harness.redis.set("bridge:ratelimit:concurrent:email", 7)
    assert not await harness.claim(source)

    assert await (await harness.upkeep()).reconcile() == ["email"]

    assert await harness.text("bridge:ratelimit:concurrent:email") == "1"
    assert len(await harness.claim(source, 9)) == 1


async def test_a_wrong_count_is_put_right_for_jobs_that_bring_their_limit(harness: Harness) -> None:
    """F-B2 F-B6"""
    await harness.add("held-up", limit=Limit(max_concurrent=1))
    await harness.add("runs", limit=Limit(max_concurrent=1))
    source, upkeep = harness.source(types=["runs"]), await harness.upkeep()
    await harness.claim(source)
    await harness.redis.set("bridge:ratelimit:concurrent:held-up", 3)
    await harness.redis.set("bridge:ratelimit:concurrent:runs", 3)

    assert await upkeep.reconcile() == ["held-up", "runs"]

    assert await harness.text("bridge:ratelimit:concurrent:held-up") is None
    assert await harness.text("bridge:ratelimit:concurrent:runs") == "1"


async def test_counts_are_found_without_walking_through_the_database(harness: Harness) -> None:
    await harness.queue.limits.set("email", Limit(max_concurrent=2))
    await harness.add("sms", limit=Limit(max_concurrent=1))
    upkeep = await harness.upkeep()
    before = await harness.calls("scan", "keys")

    await upkeep.reconcile()

    assert await harness.calls("scan", "keys") == before


async def test_no_more_start_in_a_minute_than_the_limit_says(harness: Harness) -> None:
    """B-29 B-45 F-B6"""
    await harness.queue.limits.set("email", Limit(max_per_minute=3))
    for _ in range(5):
        await harness.add()
    source = harness.source()

    assert len(await harness.claim(source, 2)) == 2
    assert len(await harness.claim(source, 9)) == 1
    assert not await harness.claim(source, 9)
    assert 0 < await harness.redis.ttl("bridge:ratelimit:minute:email") <= 60
    await harness.redis.delete("bridge:ratelimit:minute:email")

    assert len(await harness.claim(source, 9)) == 2


async def test_one_limit_counts_for_every_job_of_the_type(harness: Harness) -> None:
    """F-B6"""
    await harness.queue.limits.set("email", Limit(max_concurrent=1))
    await harness.add(priority=9)
    await harness.add(priority=1)

    assert len(await harness.claim(harness.source(), 9)) == 1
    await harness.queue.limits.remove("email")
    assert len(await harness.claim(harness.source(), 9)) == 1


async def test_where_the_type_has_no_limit_the_job_brings_one(harness: Harness) -> None:
    """F-B6 B-28 B-29"""
    for _ in range(3):
        await harness.add(limit=Limit(max_concurrent=1))
    await harness.add("sms", limit=Limit(max_per_minute=2))
    source = harness.source()

    claims = await harness.claim(source, 9)
    assert [claim.work.type for claim in claims] == ["email", "sms"]
    assert await harness.text("bridge:ratelimit:concurrent:email") == "1"
    assert await harness.text("bridge:ratelimit:minute:sms") == "1"
    await harness.settle(source, claims[0])

    assert await harness.text("bridge:ratelimit:concurrent:email") is None
    assert len(await harness.claim(source, 9)) == 1


async def test_the_limit_of_the_type_counts_before_that_of_the_job(harness: Harness) -> None:
    """F-B6"""
    await harness.queue.limits.set("email", Limit(max_concurrent=2))
    for _ in range(3):
        await harness.add(limit=Limit(max_concurrent=1))

    assert len(await harness.claim(harness.source(), 9)) == 2


async def test_jobs_of_one_type_with_other_limits_share_one_count(harness: Harness) -> None:
    """F-B6"""
    narrow = [await harness.add(limit=Limit(max_concurrent=1)) for _ in range(2)]
    wide = [await harness.add(limit=Limit(max_concurrent=3)) for _ in range(4)]
    free = await harness.add()

    claimed = await harness.claim_ids(harness.source(), 9)

    assert claimed == [narrow[0], wide[0], wide[1], free]
    assert await harness.text("bridge:ratelimit:concurrent:email") == "3"


async def test_a_foreign_job_brings_its_limit_in_its_json(harness: Harness) -> None:
    """F-B6 B-10"""
    bridge = Bridge(harness.redis)
    for number in range(2):
        await bridge.dispatch(f"a{number}", rateLimit={"maxConcurrent": 1})
    await bridge.dispatch("odd", type="odd", rateLimit={"maxConcurrent": 0})

    assert await harness.claim_ids(harness.source(), 9) == ["a0"]
    (letter,) = [each async for each in harness.queue.dead_letters]
    assert (letter.id, letter.reason) == ("odd", "MALFORMED")
    assert "max_concurrent must be at least 1, got 0" in letter.error.message


async def test_a_limit_that_cannot_be_read_stops_nobody(harness: Harness) -> None:
    for number, config in enumerate(["garbage", "7", "[]", '{"maxConcurrent":"many"}']):
        await harness.redis.hset(harness.keys.limits, f"t{number}", config)
        await harness.add(f"t{number}")

    assert len(await harness.claim(harness.source(), 9)) == 4


async def test_a_paused_type_waits_and_goes_on_when_resumed(harness: Harness) -> None:
    """B-30 F-B19"""
    id = await harness.add()
    source = harness.source()

    assert await harness.queue.pause("email")
    assert not await harness.queue.pause("email")
    assert await harness.redis.smembers("bridge:queues:paused") == {b"email"}
    assert not await harness.claim(source)
    assert await harness.queue.resume("email")

    assert await harness.claim_ids(source) == [id]


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidOption, match="max_concurrent must be at least 1, got 0"):
        Limit(max_concurrent=0)


async def test_a_count_of_a_minute_that_has_no_end_gets_one(harness: Harness) -> None:
    await harness.queue.limits.set("email", Limit(max_per_minute=3))
    minute = harness.keys.of_type("email").minute
    # Its client has died between the two commands.
    await harness.redis.set(minute, 3)
    id = await harness.add()

    assert await harness.claim(harness.source()) == []

    assert 0 < await harness.redis.pttl(minute) <= 60_000
    (reason,) = [each for each in await harness.queue.why(id) if each.why == "limited"]
    assert reason.until_ms is not None
    assert reason.until_ms > harness.clock.now_ms() + 1_000
