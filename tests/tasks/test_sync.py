"""Tasks called by code without an event loop."""

import asyncio

import pytest

from tests.support.patience import LIMIT_S
from waystation.errors import InvalidInput
from waystation.tasks import Tasks


async def test_code_that_waits_adds_calls_and_gets_results(redis_url: str) -> None:
    tasks = Tasks(redis_url)

    @tasks.task(queue="mail", retries=1)
    async def double(n: int) -> int:
        return 2 * n

    def producer() -> list[int]:
        results = [double.sync.call(21), double.sync.add(n=1).result(LIMIT_S)]
        many = double.sync.add_many([double.bind(2), double.bind(3)])
        delayed = double.with_options(delay=60).sync.add(4)
        assert delayed.job.state() == "delayed"
        with pytest.raises(InvalidInput, match="Expected `int`, got `str`"):
            double.sync.add("two")  # type: ignore[arg-type] # pyright: ignore
        return results + [each.result(LIMIT_S) for each in many]

    async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
        assert await asyncio.to_thread(producer) == [42, 2, 4, 6]
    tasks.close_blocking()
