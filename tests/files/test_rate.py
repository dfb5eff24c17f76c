"""The rate that all producers share, on a clock that only the test turns."""

import heapq
from typing import Any

import pytest

from tests.files.harness import REMEMBER_MS, Harness
from waystation.files.directory.intake import burst_of
from waystation.files.redis import replies, scripts

NAMELESS = ("", 2, "id", "{}", "/a", 0)
"""A file that is always new."""


class Timeless:
    """A client under which the allowance does not run out by itself, however slow the machine."""

    def __init__(self, harness: Harness) -> None:
        self._redis = harness.redis
        self._key = harness.keys.rate_limit

    async def execute_command(self, *args: Any) -> Any:
        moment = self._redis.pipeline(transaction=True)
        moment.execute_command(*args)
        moment.expire(self._key, 3_600)
        return (await moment.execute())[0]


async def ask(harness: Harness, now: int, *, rate: int, files: int = 0) -> tuple[int, int]:
    """Bring files at that instant; how many were taken, and how long to wait."""
    burst = burst_of(rate)
    added = await scripts.add(
        Timeless(harness),
        harness.keys,
        now=now,
        events_cap=100,
        remember_ms=REMEMBER_MS,
        rate=rate,
        burst=burst,
        jobs=NAMELESS * (files or burst),
    )
    return added.codes.count(replies.NEW), added.wait_ms


async def taken_until(
    end: int, harness: Harness, *, rate: int, producers: int
) -> list[tuple[int, int]]:
    """Let producers ask as often as they are told to: each instant, and what was taken then."""
    asking = [(0, number) for number in range(producers)]
    taken: list[tuple[int, int]] = []
    while asking[0][0] < end:
        now, number = heapq.heappop(asking)
        count, wait_ms = await ask(harness, now, rate=rate)
        taken.append((now, count))
        heapq.heappush(asking, (now + wait_ms, number))
    return taken


@pytest.mark.parametrize(
    ("rate", "producers", "window_s"),
    [(1, 2, 20), (7, 1, 20), (100, 1, 1), (100, 3, 1), (999, 2, 1)],
)
async def test_all_producers_together_keep_to_the_rate(
    harness: Harness, rate: int, producers: int, window_s: int
) -> None:
    """T-3, F-T15: within five per cent of the setting in every window, wherever it begins."""
    length = window_s * 1000
    taken = await taken_until(4 * length, harness, rate=rate, producers=producers)
    # The first moment spends what the allowance starts with, which is a burst and no rate.
    ends = [now for now, _ in taken if now >= 2 * length]
    for end in ends:
        count = sum(count for now, count in taken if end - length < now <= end)
        assert count == pytest.approx(rate * window_s, rel=0.05)
    assert len(ends) > 2 * window_s


async def test_no_window_exceeds_the_rate_by_more_than_the_burst(harness: Harness) -> None:
    """F-T15: a limiter of fixed windows lets twice as many through at their edges."""
    taken = await taken_until(3_000, harness, rate=200, producers=4)
    for end, _ in taken:
        count = sum(count for now, count in taken if end - 1_000 < now <= end)
        assert count <= 200 + burst_of(200)


async def test_a_clock_that_goes_back_gives_nothing_twice(harness: Harness) -> None:
    instants = (100_000, 40_000, 100_000, 100_030)
    taken = [(await ask(harness, now, rate=100))[0] for now in instants]
    assert taken == [5, 0, 0, 3]


async def test_a_long_rest_saves_up_one_burst_and_no_more(harness: Harness) -> None:
    assert await ask(harness, 0, rate=100, files=50) == (5, 25)
    assert await ask(harness, 3_600_000, rate=100, files=50) == (5, 25)
