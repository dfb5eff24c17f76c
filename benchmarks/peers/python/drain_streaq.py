# /// script
# dependencies = ["streaq==7.2.0"]
# ///
"""streaQ: many jobs at a time, enqueued in one go."""

import asyncio

from countdown import Countdown, given
from streaq import Worker

asked = given()
countdown = Countdown("streaq", asked)
worker = Worker(redis_url=asked.url, concurrency=asked.concurrency)


@worker.task(ttl=0)
async def nothing(n: int) -> None:
    countdown.tick(n)


async def main() -> None:
    async with worker:
        await worker.enqueue_many([nothing.enqueue(n) for n in range(asked.jobs)])
    await worker.run_async()


asyncio.run(main())
