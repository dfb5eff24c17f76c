import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from waystation.core.errors import InvalidOption
from waystation.core.store.limits import MOST, FixedWindow, Verdict, allow

START = 1_700_000_000_000
MINUTE = 60_000

# The server is emptied by the test itself; a fresh fixture for every example is not needed.
many = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
gaps = st.lists(st.integers(0, MINUTE), min_size=1, max_size=40)


async def calls(redis: Redis, limit: FixedWindow, pauses: list[int]) -> list[tuple[int, Verdict]]:
    """Call after each pause; when, and with what verdict."""
    await redis.flushdb()
    now, answers = START, list[tuple[int, Verdict]]()
    for pause in pauses:
        now += pause
        answers.append((now, await allow(redis, "limit", limit, now_ms=now)))
    return answers


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
        assert verdict.remaining == limit - used


@many
@given(pauses=gaps)
async def test_the_promised_instant_is_the_first_that_allows_a_call(
    redis: Redis, pauses: list[int]
) -> None:
    limit = FixedWindow(2, MINUTE)
    when, verdict = (await calls(redis, limit, [*pauses, 0, 0, 0]))[-1]
    assert not verdict.allowed
    assert verdict.retry_after_ms >= 1
    too_early = when + verdict.retry_after_ms - 1
    assert not (await allow(redis, "limit", limit, now_ms=too_early)).allowed
    assert (await allow(redis, "limit", limit, now_ms=too_early + 1)).allowed


async def test_a_refused_call_writes_nothing_and_a_limit_expires(redis: Redis) -> None:
    limit = FixedWindow(2, MINUTE)
    for _ in range(2):
        assert (await allow(redis, "limit", limit, now_ms=START)).allowed
    before = await redis.dump("limit")
    assert not (await allow(redis, "limit", limit, now_ms=START + 1)).allowed
    assert await redis.dump("limit") == before
    assert 0 < await redis.pttl("limit") <= MINUTE


async def test_many_calls_at_once_on_the_servers_clock_get_no_more_than_the_limit(
    redis: Redis,
) -> None:
    limit = FixedWindow(10, MINUTE)
    answers = await asyncio.gather(*(allow(redis, "limit", limit) for _ in range(30)))
    assert sum(verdict.allowed for verdict in answers) == 10
    assert sorted(verdict.remaining for verdict in answers if verdict.allowed) == list(range(10))


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (-1, 5), (1, MOST + 1)])
def test_a_limit_without_room_is_refused(numbers: tuple[int, int]) -> None:
    with pytest.raises(InvalidOption, match="must be 1 to"):
        FixedWindow(*numbers)
