"""Time limits: what a limit encloses ends in time, and counts when it should."""

import asyncio

import pytest

from waystation.core.runtime.handlers.time_limit import TimeLimit, in_place_of_others


async def test_a_limit_in_the_place_of_another_lets_that_one_begin_anew() -> None:
    outer = TimeLimit(0.01)

    async def run() -> None:
        async with outer:
            async with in_place_of_others(60):
                await asyncio.sleep(0.05)
            assert not outer.expired()
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await run()


async def test_a_limit_in_the_place_of_another_is_one_itself() -> None:
    async with TimeLimit(60):
        with pytest.raises(TimeoutError):
            async with in_place_of_others(0.01):
                await asyncio.Event().wait()
