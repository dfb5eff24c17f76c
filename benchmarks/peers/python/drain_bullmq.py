# /// script
# dependencies = ["bullmq==3.4.4", "redis==7.4.1"]
# ///
"""BullMQ's own Python port; more than 40 at a time make it slower."""

import asyncio
import os
from typing import Any

from bullmq import Queue, Worker
from countdown import Countdown, given

CHUNK = 1000

asked = given()
countdown = Countdown("bullmq", asked)
name = f"bench-{os.getpid()}"


async def nothing(job: Any, token: str) -> None:
    countdown.tick(job.data["n"])


async def main() -> None:
    queue = Queue(name, {"connection": asked.url})
    for first in range(0, asked.jobs, CHUNK):
        numbers = range(first, min(first + CHUNK, asked.jobs))
        await queue.addBulk([{"name": "job", "data": {"n": n}, "opts": {}} for n in numbers])
    options = {"connection": asked.url, "concurrency": asked.concurrency, "autorun": False}
    await Worker(name, nothing, options).run()


asyncio.run(main())
