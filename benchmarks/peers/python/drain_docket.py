# /// script
# dependencies = ["pydocket==0.27.0"]
# ///
"""Docket: many jobs at a time."""

import asyncio

from countdown import Countdown, given
from docket import Docket, Worker

asked = given()
countdown = Countdown("pydocket", asked)


async def nothing(n: int) -> None:
    countdown.tick(n)


async def main() -> None:
    async with Docket(name="bench", url=asked.url) as docket:
        docket.register(nothing)
        for n in range(asked.jobs):
            await docket.add(nothing)(n)
        async with Worker(docket, concurrency=asked.concurrency) as worker:
            await worker.run_until_finished()


asyncio.run(main())
