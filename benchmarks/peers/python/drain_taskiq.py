# /// script
# dependencies = ["taskiq==0.13.0", "taskiq-redis==1.2.4"]
# ///
"""Taskiq: streams, which acknowledge, and no results."""

import asyncio

from countdown import Countdown, given
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

asked = given()
countdown = Countdown("taskiq", asked)
broker = RedisStreamBroker(url=asked.url)


@broker.task
async def nothing(n: int) -> None:
    countdown.tick(n)


async def main() -> None:
    await broker.startup()
    for n in range(asked.jobs):
        await nothing.kiq(n)
    await run_receiver_task(broker, max_async_tasks=asked.concurrency, run_startup=True)


asyncio.run(main())
