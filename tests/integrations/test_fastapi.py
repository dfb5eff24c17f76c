"""FastAPI: queues and tasks that live as long as the application."""

import asyncio
import base64
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from httpx2 import ASGITransport, AsyncClient
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.support.stored_payloads import stored
from waystation.bullmq import Job, PayloadOptions, Queue
from waystation.errors import WrongState
from waystation.integrations.fastapi import Waystation
from waystation.tasks import Tasks, depends


async def test_an_endpoint_adds_jobs_and_the_application_runs_them(redis_url: str) -> None:
    tasks = Tasks(redis_url)

    @tasks.task(queue="numbers")
    async def double(n: int) -> int:
        return 2 * n

    waystation = Waystation(tasks=tasks, work=True)
    app = FastAPI(lifespan=waystation.lifespan)

    @app.post("/letters")
    async def letters(mail: Annotated[Queue, Depends(waystation.queue("mail"))]) -> dict[str, Any]:
        job = await mail.add("send", {"to": "ada"})
        return {"id": job.id}

    @app.get("/double/{n}")
    async def doubled(n: int) -> int:
        return await double.call(n)

    transport = ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=transport, base_url="http://shop") as client,
        asyncio.timeout(LIMIT_S),
    ):
        assert (await client.post("/letters")).json() == {"id": "1"}
        assert (await client.post("/letters")).json() == {"id": "2"}
        assert (await client.get("/double/21")).json() == 42
    with pytest.raises(WrongState, match="give FastAPI our lifespan"):
        waystation.queue("mail")()


async def test_its_queues_are_those_of_its_tasks(redis_url: str) -> None:
    tasks = Tasks(redis_url, prefix="shop")

    @tasks.task(queue="orders")
    async def order(n: int) -> int:
        return n

    waystation = Waystation(tasks=tasks, work=True)
    async with waystation.lifespan(None):
        queue = waystation.queue("orders")()
        job = await queue.add("order", {"n": 1})
        assert await queue.wait(job.id, timeout=LIMIT_S) == 1


@pytest.mark.parametrize("of", ["tasks", "application"])
async def test_its_queues_seal_what_their_workers_open(
    of: str, redis: Redis, redis_url: str
) -> None:
    payloads = PayloadOptions(keys="k1=" + base64.b64encode(b"1" * 32).decode())
    tasks = Tasks(redis_url, payloads=payloads)

    @tasks.task(queue="orders")
    async def order(job: Job = depends(Job)) -> str:
        return (await job.wait_for("paid"))["by"]

    waystation = (
        Waystation(tasks=tasks) if of == "tasks" else Waystation(redis_url, payloads=payloads)
    )
    async with (
        tasks,
        waystation.lifespan(None),
        tasks.worker("orders", redis_url),
        asyncio.timeout(LIMIT_S),
    ):
        queue = waystation.queue("orders")()
        job = await queue.add("order", {})
        assert await queue.signal(job.id, "paid", {"by": "a secret card"})
        assert await queue.wait(job.id) == "a secret card"
    assert b"secret" not in await stored(redis)
