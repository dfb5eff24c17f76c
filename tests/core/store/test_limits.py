import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from waystation.core.errors import InvalidOption, RateLimited
from waystation.core.store.limits import (
    MOST,
    Concurrency,
    FixedWindow,
    SlidingWindow,
    TokenBucket,
    Verdict,
    allow,
    occupy,
    vacate,
)

START = 1_700_000_000_000
MINUTE = 60_000

# The server is emptied by the test itself; a fresh fixture for every example is not needed.
many = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
gaps = st.lists(st.integers(0, MINUTE), min_size=1, max_size=40)


async def state(redis: Redis) -> Any:
    return await redis.dump("limit")


async def calls(
    redis: Redis, limit: SlidingWindow | FixedWindow | TokenBucket, pauses: list[int]
) -> list[tuple[int, Verdict]]:
    """Call after each pause; when, and with what verdict."""
    await redis.flushdb()
    now, said = START, list[tuple[int, Verdict]]()
    for pause in pauses:
        now += pause
        said.append((now, await allow(redis, "limit", limit, now_ms=now)))
    return said


@many
@given(pauses=gaps, limit=st.integers(1, 5))
async def test_no_span_of_the_window_ever_holds_more_than_the_limit(
    redis: Redis, pauses: list[int], limit: int
) -> None:
    said = await calls(redis, SlidingWindow(limit, MINUTE), pauses)
    passed = [when for when, verdict in said if verdict.allowed]
    for end in passed:
        assert sum(end - MINUTE < when <= end for when in passed) <= limit


@many
@given(pauses=gaps, limit=st.integers(1, 5))
async def test_a_sliding_window_refuses_only_what_would_be_too_much(
    redis: Redis, pauses: list[int], limit: int
) -> None:
    passed: list[int] = []
    for when, verdict in await calls(redis, SlidingWindow(limit, MINUTE), pauses):
        used = sum(when - MINUTE < each for each in passed)
        assert verdict.allowed == (used < limit)
        if verdict.allowed:
            passed.append(when)


@many
@given(pauses=gaps, capacity=st.integers(1, 5), refill=st.integers(1, 7))
async def test_a_bucket_gives_out_what_a_model_of_whole_parts_gives_out(
    redis: Redis, pauses: list[int], capacity: int, refill: int
) -> None:
    bucket = TokenBucket(capacity, refill, period_ms=MINUTE)
    level, before = capacity * MINUTE, START
    for when, verdict in await calls(redis, bucket, pauses):
        level, before = min(capacity * MINUTE, level + (when - before) * refill), when
        assert verdict.allowed == (level >= MINUTE)
        level -= MINUTE if verdict.allowed else 0
        assert verdict.remaining == level // MINUTE


@many
@given(pauses=gaps, limit=st.integers(1, 5))
async def test_a_fixed_window_opens_with_a_call_and_closes_after_its_width(
    redis: Redis, pauses: list[int], limit: int
) -> None:
    closes, used = 0, 0
    for when, verdict in await calls(redis, FixedWindow(limit, MINUTE), pauses):
        if when >= closes:
            closes, used = when + MINUTE, 0
        assert verdict.allowed == (used < limit)
        used += verdict.allowed


@many
@given(
    pauses=gaps,
    limit=st.sampled_from(
        [SlidingWindow(2, MINUTE), FixedWindow(2, MINUTE), TokenBucket(2, 7, MINUTE)]
    ),
)
async def test_the_promised_instant_is_the_first_that_lets_a_call_through(
    redis: Redis, pauses: list[int], limit: SlidingWindow | FixedWindow | TokenBucket
) -> None:
    said = await calls(redis, limit, [*pauses, 0, 0, 0])
    when, verdict = said[-1]
    assert not verdict.allowed
    assert verdict.retry_after_ms >= 1
    too_early = when + verdict.retry_after_ms - 1
    assert not (await allow(redis, "limit", limit, now_ms=too_early)).allowed
    assert (await allow(redis, "limit", limit, now_ms=too_early + 1)).allowed


@pytest.mark.parametrize(
    "limit", [SlidingWindow(2, MINUTE), FixedWindow(2, MINUTE), TokenBucket(2, 1, MINUTE)]
)
async def test_a_refused_call_writes_nothing_and_every_limit_forgets_itself(
    redis: Redis, limit: SlidingWindow | FixedWindow | TokenBucket
) -> None:
    for _ in range(2):
        assert (await allow(redis, "limit", limit, now_ms=START)).allowed
    before = await state(redis)
    assert not (await allow(redis, "limit", limit, now_ms=START + 1)).allowed
    assert await state(redis) == before
    assert 0 < await redis.pttl("limit") <= 2 * MINUTE


@pytest.mark.parametrize(
    "limit", [SlidingWindow(10, MINUTE), FixedWindow(10, MINUTE), TokenBucket(10, 1, MINUTE)]
)
async def test_the_servers_clock_counts_and_a_crowd_gets_no_more_than_the_limit(
    redis: Redis, limit: SlidingWindow | FixedWindow | TokenBucket
) -> None:
    said = await asyncio.gather(*(allow(redis, "limit", limit) for _ in range(30)))
    assert sum(verdict.allowed for verdict in said) == 10
    assert sorted(verdict.remaining for verdict in said if verdict.allowed) == list(range(10))


async def test_a_call_may_cost_more_than_one(redis: Redis) -> None:
    for limit in (SlidingWindow(5, MINUTE), FixedWindow(5, MINUTE), TokenBucket(5, 1, MINUTE)):
        await redis.delete("limit")
        assert await allow(redis, "limit", limit, cost=4, now_ms=START) == (True, 1, 0)
        refused = await allow(redis, "limit", limit, cost=2, now_ms=START)
        assert refused == (False, 1, MINUTE)


async def test_a_clock_that_steps_back_fills_no_bucket(redis: Redis) -> None:
    bucket = TokenBucket(1, 1, MINUTE)
    assert (await allow(redis, "limit", bucket, now_ms=START)).allowed
    assert not (await allow(redis, "limit", bucket, now_ms=START - 10 * MINUTE)).allowed
    assert not (await allow(redis, "limit", bucket, now_ms=START + MINUTE - 1)).allowed
    assert (await allow(redis, "limit", bucket, now_ms=START + MINUTE)).allowed


async def test_a_clock_that_steps_back_takes_no_token_away(redis: Redis) -> None:
    bucket = TokenBucket(2, 1, MINUTE)
    assert (await allow(redis, "limit", bucket, now_ms=START)).allowed
    assert (await allow(redis, "limit", bucket, now_ms=START - 10 * MINUTE)).allowed
    assert not (await allow(redis, "limit", bucket, now_ms=START + MINUTE - 1)).allowed


async def test_a_sliding_window_forgets_the_calls_that_have_left_it(redis: Redis) -> None:
    for step in range(20):
        now = START + step * MINUTE
        assert (await allow(redis, "limit", SlidingWindow(2, MINUTE), now_ms=now)).allowed
    assert await redis.zcard("limit") == 1


async def test_places_are_given_out_until_there_are_none(redis: Redis) -> None:
    limit = Concurrency(2, hold_ms=MINUTE)
    assert await occupy(redis, "seats", limit, holder="a", now_ms=START) == (True, 1, 0)
    assert await occupy(redis, "seats", limit, holder="b", now_ms=START + 10) == (True, 0, 0)
    refused = await occupy(redis, "seats", limit, holder="c", now_ms=START + 20)
    assert refused == (False, 0, MINUTE - 20)
    assert await vacate(redis, "seats", holder="a")
    assert (await occupy(redis, "seats", limit, holder="c", now_ms=START + 30)).allowed
    assert not await vacate(redis, "seats", holder="a")


async def test_a_holder_keeps_its_one_place_by_asking_again(redis: Redis) -> None:
    limit = Concurrency(1, hold_ms=MINUTE)
    for step in range(5):
        now = START + step * (MINUTE - 1)
        assert (await occupy(redis, "seats", limit, holder="a", now_ms=now)).allowed
        assert not (await occupy(redis, "seats", limit, holder="b", now_ms=now)).allowed
    assert await redis.zcard("seats") == 1
    assert 0 < await redis.pttl("seats") <= MINUTE


async def test_the_place_of_a_vanished_holder_becomes_free(redis: Redis) -> None:
    limit, later = Concurrency(1, hold_ms=MINUTE), START + MINUTE
    await occupy(redis, "seats", limit, holder="vanished", now_ms=START)
    assert (await occupy(redis, "seats", limit, holder="b", now_ms=later)).allowed
    assert not (await occupy(redis, "seats", limit, holder="vanished", now_ms=later)).allowed
    assert await redis.zcard("seats") == 1


async def test_a_place_that_has_just_run_out_is_taken_anew(redis: Redis) -> None:
    limit = Concurrency(1, hold_ms=MINUTE)
    await occupy(redis, "seats", limit, holder="a", now_ms=START)
    assert await occupy(redis, "seats", limit, holder="a", now_ms=START + MINUTE) == (True, 0, 0)


@many
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, MINUTE), st.booleans()), max_size=40
    )
)
async def test_there_are_never_more_holders_than_places(
    redis: Redis, steps: list[tuple[str, int, bool]]
) -> None:
    await redis.flushdb()
    now, held = START, dict[str, int]()
    for holder, pause, leaves in steps:
        now += pause
        held = {each: until for each, until in held.items() if until > now}
        if leaves:
            await vacate(redis, "seats", holder=holder)
            held.pop(holder, None)
            continue
        verdict = await occupy(redis, "seats", Concurrency(2, MINUTE), holder=holder, now_ms=now)
        assert verdict.allowed == (holder in held or len(held) < 2)
        if verdict.allowed:
            held[holder] = now + MINUTE
        assert verdict.remaining == 2 - len(held)


def test_a_refusal_can_be_raised() -> None:
    Verdict(allowed=True, remaining=1, retry_after_ms=0).require()
    with pytest.raises(RateLimited, match="in 40 ms") as refused:
        Verdict(allowed=False, remaining=0, retry_after_ms=40).require()
    assert refused.value.retry_after_ms == 40


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (-1, 5), (1, MOST + 1)])
@pytest.mark.parametrize("kind", [SlidingWindow, FixedWindow, TokenBucket, Concurrency])
def test_a_limit_without_room_is_refused(kind: Any, numbers: tuple[int, int]) -> None:
    with pytest.raises(InvalidOption, match="must be 1 to"):
        kind(*numbers)


def test_a_bucket_too_large_to_count_exactly_is_refused() -> None:
    with pytest.raises(InvalidOption, match="capacity_times_period_ms"):
        TokenBucket(10**13, 1)


@pytest.mark.parametrize("cost", [0, 4])
async def test_a_cost_that_can_never_fit_is_refused(redis: Redis, cost: int) -> None:
    with pytest.raises(InvalidOption, match=f"cost must be 1 to 3, the limit itself, got {cost}"):
        await allow(redis, "limit", TokenBucket(3, 1), cost=cost)
