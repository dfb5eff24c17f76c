"""One cashier, in a process of its own, so that it can be killed: `… cashier URL NAME`."""

import asyncio
import contextlib
import random
import sys

from waystation.bullmq import Job, Worker
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry import logs

QUEUE = "purchases"
BANK_S = 0.02


async def charge(job: Job) -> dict[str, str]:
    """Charge the card; every now and then the bank does not answer."""
    await asyncio.sleep(random.expovariate(1 / BANK_S))
    if random.random() < 0.03:
        raise TimeoutError("the bank does not answer")
    return {"ticket": f"seat {job.data['seat']}"}


async def main(url: str, name: str) -> None:
    """Serve until asked to stop."""
    # Short leases, so that the watching world need not wait long for a dead cashier's purchases.
    worker = Worker(
        QUEUE,
        charge,
        url,
        concurrency=25,
        name=name,
        lease=1,
        stalled_interval=1,
        max_stalled=3,
    )
    async with worker:
        await until_asked_to_stop()


if __name__ == "__main__":
    # The show itself says what goes wrong in it.
    logs.configure(level="error")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
