"""How much of one type may run, at once and in a minute."""

import pytest

from tests.routing.bridge import Bridge
from tests.routing.hands import Hands
from waystation.core.errors import InvalidOption
from waystation.core.outcome import Done, Failed, Returned
from waystation.core.runtime.claim import Settled
from waystation.routing import BackoffRule, Limit, Retry


async def test_no_more_run_at_once_than_the_limit_says(hands: Hands) -> None:
    """B-28 B-45"""
    await hands.queue.limits.set("email", Limit(max_concurrent=2))
    ids = [await hands.add() for _ in range(4)]
    other = await hands.add("sms")
    source = hands.source()

    claims = await hands.claim(source, 9)
    assert [claim.id for claim in claims] == [ids[0], ids[1], other]
    assert await hands.text("bridge:ratelimit:concurrent:email") == "2"
    reply = await source.settle([Settled(claims[0], Done())], claim=9)

    assert [claim.id for claim in reply.claims] == [ids[2]]


@pytest.mark.parametrize("end", ["done", "retry", "dead", "returned", "lapsed", "cancelled"])
async def test_every_end_of_a_claim_gives_its_place_back(hands: Hands, end: str) -> None:
    """B-28 F-B2"""
    await hands.queue.limits.set("email", Limit(max_concurrent=1))
    retry = Retry(attempts=1 if end == "dead" else 5, backoff=BackoffRule(delay=0))
    id = await hands.add(retry=retry)
    source = hands.source()
    (claim,) = await hands.claim(source)
    match end:
        case "done":
            await hands.settle(source, claim)
        case "retry" | "dead":
            await hands.settle(source, claim, Failed(RuntimeError("no")))
        case "returned":
            await hands.settle(source, claim, Returned())
        case "cancelled":
            await hands.queue.cancel(id)
            assert await hands.settle(source, claim)
        case _:
            await hands.lapse()

    assert await hands.text("bridge:ratelimit:concurrent:email") is None
    await hands.add()
    assert await hands.claim(source)


async def test_a_type_without_a_limit_is_not_counted(hands: Hands) -> None:
    """F-B2"""
    await hands.add()
    await hands.claim(hands.source())

    assert await hands.text("bridge:ratelimit:concurrent:email") is None


async def test_a_count_that_is_wrong_is_put_right(hands: Hands) -> None:
    """F-B2"""
    await hands.queue.limits.set("email", Limit(max_concurrent=2))
    for _ in range(3):
        await hands.add()
    source = hands.source()
    await hands.claim(source)
    await hands.redis.set("bridge:ratelimit:concurrent:email", 7)
    assert not await hands.claim(source)

    assert await (await hands.upkeep()).reconcile() == ["email"]

    assert await hands.text("bridge:ratelimit:concurrent:email") == "1"
    assert len(await hands.claim(source, 9)) == 1


async def test_a_wrong_count_is_put_right_for_jobs_that_bring_their_limit(hands: Hands) -> None:
    """F-B2 F-B6"""
    await hands.add("held-up", limit=Limit(max_concurrent=1))
    await hands.add("runs", limit=Limit(max_concurrent=1))
    source, upkeep = hands.source(types=["runs"]), await hands.upkeep()
    await hands.claim(source)
    await hands.redis.set("bridge:ratelimit:concurrent:held-up", 3)
    await hands.redis.set("bridge:ratelimit:concurrent:runs", 3)

    assert await upkeep.reconcile() == ["held-up", "runs"]

    assert await hands.text("bridge:ratelimit:concurrent:held-up") is None
    assert await hands.text("bridge:ratelimit:concurrent:runs") == "1"


async def test_counts_are_found_without_walking_through_the_database(hands: Hands) -> None:
    await hands.queue.limits.set("email", Limit(max_concurrent=2))
    await hands.add("sms", limit=Limit(max_concurrent=1))
    upkeep = await hands.upkeep()
    before = await hands.calls("scan", "keys")

    await upkeep.reconcile()

    assert await hands.calls("scan", "keys") == before


async def test_no_more_start_in_a_minute_than_the_limit_says(hands: Hands) -> None:
    """B-29 B-45 F-B6"""
    await hands.queue.limits.set("email", Limit(max_per_minute=3))
    for _ in range(5):
        await hands.add()
    source = hands.source()

    assert len(await hands.claim(source, 2)) == 2
    assert len(await hands.claim(source, 9)) == 1
    assert not await hands.claim(source, 9)
    assert 0 < await hands.redis.ttl("bridge:ratelimit:minute:email") <= 60
    await hands.redis.delete("bridge:ratelimit:minute:email")

    assert len(await hands.claim(source, 9)) == 2


async def test_one_limit_counts_for_every_job_of_the_type(hands: Hands) -> None:
    """F-B6"""
    await hands.queue.limits.set("email", Limit(max_concurrent=1))
    await hands.add(priority=9)
    await hands.add(priority=1)

    assert len(await hands.claim(hands.source(), 9)) == 1
    await hands.queue.limits.remove("email")
    assert len(await hands.claim(hands.source(), 9)) == 1


async def test_where_the_type_has_no_limit_the_job_brings_one(hands: Hands) -> None:
    """F-B6 B-28 B-29"""
    for _ in range(3):
        await hands.add(limit=Limit(max_concurrent=1))
    await hands.add("sms", limit=Limit(max_per_minute=2))
    source = hands.source()

    claims = await hands.claim(source, 9)
    assert [claim.work.type for claim in claims] == ["email", "sms"]
    assert await hands.text("bridge:ratelimit:concurrent:email") == "1"
    assert await hands.text("bridge:ratelimit:minute:sms") == "1"
    await hands.settle(source, claims[0])

    assert await hands.text("bridge:ratelimit:concurrent:email") is None
    assert len(await hands.claim(source, 9)) == 1


async def test_the_limit_of_the_type_counts_before_that_of_the_job(hands: Hands) -> None:
    """F-B6"""
    await hands.queue.limits.set("email", Limit(max_concurrent=2))
    for _ in range(3):
        await hands.add(limit=Limit(max_concurrent=1))

    assert len(await hands.claim(hands.source(), 9)) == 2


async def test_jobs_of_one_type_with_other_limits_share_one_count(hands: Hands) -> None:
    """F-B6"""
    narrow = [await hands.add(limit=Limit(max_concurrent=1)) for _ in range(2)]
    wide = [await hands.add(limit=Limit(max_concurrent=3)) for _ in range(4)]
    free = await hands.add()

    claimed = await hands.claim_ids(hands.source(), 9)

    assert claimed == [narrow[0], wide[0], wide[1], free]
    assert await hands.text("bridge:ratelimit:concurrent:email") == "3"


async def test_a_foreign_job_brings_its_limit_in_its_json(hands: Hands) -> None:
    """F-B6 B-10"""
    bridge = Bridge(hands.redis)
    for number in range(2):
        await bridge.dispatch(f"a{number}", rateLimit={"maxConcurrent": 1})
    await bridge.dispatch("odd", type="odd", rateLimit={"maxConcurrent": 0})

    assert await hands.claim_ids(hands.source(), 9) == ["a0"]
    (letter,) = [each async for each in hands.queue.dead_letters]
    assert (letter.id, letter.reason) == ("odd", "MALFORMED")
    assert "max_concurrent must be at least 1, got 0" in letter.error.message


async def test_a_limit_that_cannot_be_read_stops_nobody(hands: Hands) -> None:
    for number, config in enumerate(["garbage", "7", "[]", '{"maxConcurrent":"many"}']):
        await hands.redis.hset(hands.keys.limits, f"t{number}", config)
        await hands.add(f"t{number}")

    assert len(await hands.claim(hands.source(), 9)) == 4


async def test_a_paused_type_waits_and_goes_on_when_resumed(hands: Hands) -> None:
    """B-30 F-B19"""
    id = await hands.add()
    source = hands.source()

    assert await hands.queue.pause("email")
    assert not await hands.queue.pause("email")
    assert await hands.redis.smembers("bridge:queues:paused") == {b"email"}
    assert not await hands.claim(source)
    assert await hands.queue.resume("email")

    assert await hands.claim_ids(source) == [id]


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidOption, match="max_concurrent must be at least 1, got 0"):
        Limit(max_concurrent=0)


async def test_a_count_of_a_minute_that_has_no_end_gets_one(hands: Hands) -> None:
    await hands.queue.limits.set("email", Limit(max_per_minute=3))
    minute = hands.keys.of_type("email").minute
    # Its client has died between the two commands.
    await hands.redis.set(minute, 3)
    id = await hands.add()

    assert await hands.claim(hands.source()) == []

    assert 0 < await hands.redis.pttl(minute) <= 60_000
    (reason,) = [each for each in await hands.queue.why(id) if each.why == "limited"]
    assert reason.until_ms is not None
    assert reason.until_ms > hands.clock.now_ms() + 1_000
