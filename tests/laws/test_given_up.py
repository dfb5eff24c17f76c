"""Whoever gives up at any moment leaves no connection, no task and no claim behind."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral

FEW_TURNS = 10_000


async def work(job: Any) -> None:
    await asyncio.sleep(0)


async def add(url: str) -> None:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add("send")


async def listen(url: str) -> None:
    async with bullmq.QueueEvents("mail", url) as events:
        await anext(events.listen("0"))


async def dispatch(url: str) -> None:
    async with routing.Queue(url) as queue:
        await queue.add("mail")


async def work_on_jobs(url: str) -> None:
    async with bullmq.Worker("mail", work, url):
        await asyncio.sleep(0)


async def work_on_routed_jobs(url: str) -> None:
    async with routing.Worker({"mail": work}, url):
        await asyncio.sleep(0)


async def work_on_files(url: str) -> None:
    handlers = files.Handlers()
    handlers.handler("**/*")(work)
    async with files.Worker(handlers, url):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("step", "every"),
    [
        (add, 1),
        (listen, 1),
        (dispatch, 1),
        (work_on_jobs, 3),
        (work_on_routed_jobs, 3),
        (work_on_files, 3),
    ],
)
async def test_nothing_is_left(
    own_server: Ephemeral, step: Callable[[str], Awaitable[None]], every: int
) -> None:
    before = asyncio.all_tasks()
    async with await connect(own_server.url) as store:
        await add(own_server.url)
        for turns in range(0, FEW_TURNS, every):
            if await ends_within(turns, step, own_server.url):
                break
        async with asyncio.timeout(LIMIT_S):
            while (await store.redis.info("clients"))["connected_clients"] > 1:
                await asyncio.sleep(0.01)
        assert await store.redis.llen("bull:mail:active") == 0
        assert await store.redis.hlen("bridge:jobs:claims") == 0
    assert asyncio.all_tasks() == before


async def ends_within(turns: int, step: Callable[[str], Awaitable[None]], url: str) -> bool:
    """Give up after so many turns of the loop, unless it has ended by then."""
    going = asyncio.ensure_future(step(url))
    for _ in range(turns):
        if going.done():
            break
        await asyncio.sleep(0)
    ended = going.done()
    going.cancel()
    await asyncio.wait([going])
    return ended and going.exception() is None
