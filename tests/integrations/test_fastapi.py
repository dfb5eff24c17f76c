"""FastAPI: queues and tasks that live as long as the application."""

import asyncio
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from httpx2 import ASGITransport, AsyncClient

from tests.support.patience import LIMIT_S
from waystation.bullmq import Queue
from waystation.errors import WrongState
from waystation.integrations.fastapi import Waystation
from waystation.tasks import Tasks


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
