# /// script
# dependencies = ["saq[redis]==0.26.4", "typing-extensions==4.15.0"]
# ///
"""SAQ: many jobs at a time."""

import asyncio
from typing import Any

from countdown import Countdown, given
from saq import Queue, Worker

asked = given()
countdown = Countdown("saq", asked)


async def nothing(context: Any, *, n: int) -> None:
    countdown.tick(n)


async def main() -> None:
    queue = Queue.from_url(asked.url)
    await queue.connect()
    for n in range(asked.jobs):
        await queue.enqueue("nothing", n=n)
    await Worker(queue, [nothing], concurrency=asked.concurrency).start()


asyncio.run(main())
