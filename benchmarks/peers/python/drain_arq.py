# /// script
# dependencies = ["arq==0.28.0"]
# ///
"""arq: no results kept, and many jobs at a time."""

import asyncio
from typing import Any

from arq import Worker, create_pool
from arq.connections import RedisSettings
from countdown import Countdown, given

asked = given()
countdown = Countdown("arq", asked)


async def nothing(context: dict[str, Any], n: int) -> None:
    countdown.tick(n)


async def main() -> None:
    settings = RedisSettings.from_dsn(asked.url)
    pool = await create_pool(settings)
    for n in range(asked.jobs):
        await pool.enqueue_job("nothing", n)
    options = {"max_jobs": asked.concurrency, "keep_result": 0, "poll_delay": 0.01}
    await Worker([nothing], redis_settings=settings, handle_signals=False, **options).async_run()


asyncio.run(main())
