"""What a job is given comes back as it was, or is refused before anything is written."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
from redis.asyncio import Redis

from waystation import bullmq, routing
from waystation.bullmq import NewJob
from waystation.core.errors import InvalidInput
from waystation.tasks import Tasks

UNLIKE: list[tuple[Any, str]] = [
    (b"x", r"data\.a\.0 must be a JSON value, got bytes, which would come back as base64"),
    (bytearray(b"x"), r"data\.a\.0 must be a JSON value, got bytearray"),
    ({1, 2}, r"data\.a\.0 must be a JSON value, got set, which would come back as a list"),
    (frozenset("a"), r"data\.a\.0 must be a JSON value, got frozenset"),
    ({1: "x"}, r"the keys of data\.a\.0 must be texts, got int"),
    ({"b": {2.5: "x"}}, r"the keys of data\.a\.0\.b must be texts, got float"),
    ({"b": ({"c": b"x"},)}, r"data\.a\.0\.b\.0\.c must be a JSON value, got bytes"),
]

Give: TypeAlias = Callable[[str, Any], Awaitable[Any]]


async def add(url: str, data: Any) -> None:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add("send", data)


async def add_many(url: str, data: Any) -> None:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([NewJob("send", {}), NewJob("send", data)])


async def add_encrypted(url: str, data: Any) -> None:
    keys = bullmq.PayloadOptions(keys="k1=AAAAAAAAAAAAAAAAAAAAAA==")
    async with bullmq.Queue("mail", url, payloads=keys) as queue:
        await queue.add("send", data)


async def add_flow(url: str, data: Any) -> None:
    async with bullmq.FlowProducer(url) as flows:
        child = bullmq.FlowNode(name="send", queue="mail", data=data)
        await flows.add(bullmq.FlowNode(name="send", queue="mail", children=[child]))


async def upsert(url: str, data: Any) -> None:
    async with bullmq.Queue("mail", url) as queue:
        await queue.schedulers.upsert("daily", bullmq.Schedule(every=3600), data=data)


async def call(url: str, data: Any) -> None:
    tasks = Tasks(url)

    @tasks.task(queue="mail")
    def send(data: Any) -> None: ...

    async with tasks:
        await send.add(data)


async def add_routed(url: str, data: Any) -> None:
    async with routing.Queue(url) as queue:
        await queue.add_many([routing.NewJob("send", {}), routing.NewJob("send", data)])


WAYS: list[Give] = [add, add_many, add_encrypted, add_flow, upsert, call, add_routed]


@pytest.mark.parametrize("give", WAYS, ids=lambda each: each.__name__)
async def test_what_would_come_back_as_something_else_is_refused_by_its_place(
    redis: Redis, redis_url: str, give: Give
) -> None:
    for value, sentence in UNLIKE:
        with pytest.raises(InvalidInput, match=sentence):
            await give(redis_url, {"a": [value]})
    assert await redis.dbsize() == 0


async def test_metadata_and_new_data_are_refused_likewise(redis: Redis, redis_url: str) -> None:
    async with routing.Queue(redis_url) as queue:
        with pytest.raises(InvalidInput, match=r"metadata\.a must be a JSON value, got set"):
            await queue.add("send", metadata={"a": {1}})
    assert await redis.dbsize() == 0
    async with bullmq.Queue("mail", redis_url) as queue:
        job = await queue.add("send", {"a": 1})
        with pytest.raises(InvalidInput, match=r"the keys of data must be texts, got int"):
            await job.update_data({1: 1})
        stored = await queue.get_job(job.id)
        assert stored is not None
        assert stored.data == {"a": 1}
