# /// script
# dependencies = ["dbos==3.3.0"]
# ///
"""DBOS on SQLite: workflows of ten steps, as many at once as asked."""

import asyncio
import tempfile
from pathlib import Path

from countdown import Countdown, given
from dbos import DBOS

asked = given()
countdown = Countdown("dbos", asked)
STEPS = 10


@DBOS.step()
async def nothing(number: int) -> int:
    countdown.tick(number)
    return number


@DBOS.workflow()
async def order(n: int) -> int:
    return sum([await nothing(n * STEPS + step) for step in range(STEPS)])


async def main() -> None:
    folder = Path(tempfile.mkdtemp())
    DBOS(
        config={
            "name": "steps",
            "system_database_url": f"sqlite:///{folder / 'steps.sqlite'}",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    DBOS.launch()
    room = asyncio.Semaphore(asked.concurrency)

    async def run(n: int) -> None:
        async with room:
            await order(n)

    await asyncio.gather(*(run(n) for n in range(asked.jobs // STEPS)))


asyncio.run(main())
