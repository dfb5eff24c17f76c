"""Tasks over an empty store, and workers that run until nothing is left to do."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest

from tests.support.patience import LIMIT_S
from waystation.tasks import Tasks
from waystation.testing import run_until_empty

Finish: TypeAlias = Callable[..., Awaitable[None]]


@pytest.fixture
async def tasks(redis_url: str) -> AsyncIterator[Tasks]:
    async with Tasks(redis_url) as opened:
        yield opened


@pytest.fixture
def finish(tasks: Tasks) -> Finish:
    """Run everything that is in a queue."""

    async def finish(queue: str = "default", tasks: Tasks = tasks) -> None:
        await run_until_empty(tasks.worker(queue), tasks.queue(queue), timeout=LIMIT_S)

    return finish
