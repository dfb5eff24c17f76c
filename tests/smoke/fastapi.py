"""An endpoint adds a job, and the application runs it."""

import asyncio

from fastapi import FastAPI

from waystation.integrations.fastapi import Waystation
from waystation.tasks import Tasks

tasks = Tasks()


@tasks.task(queue="numbers")
async def double(n: int) -> int:
    return 2 * n


app = FastAPI(lifespan=Waystation(tasks=tasks, work=True).lifespan)


async def main() -> None:
    async with app.router.lifespan_context(app), asyncio.timeout(60):
        assert await double.call(21) == 42


asyncio.run(main())
