"""A worker of the routing line in a process of its own, to be killed: `… URL NAME KIND`."""

import asyncio
import os
import random
import signal
import sys

from waystation.core.errors import StoreError
from waystation.routing import Job, SchedulerOptions, Worker, WorkerOptions

OPTIONS = WorkerOptions(concurrency=20, lease=1.5, poll=0.2, grace=2.0)


async def handle(job: Job) -> str:
    """Take a while; fail now and then, or take the whole process along."""
    if job.data.get("poison"):
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(random.uniform(0, 0.01))
    if job.data.get("moody") and job.attempts == 0:
        raise ConnectionError("not the first time")
    return job.id


async def main(url: str, name: str, kind: str, max_stalls: str) -> None:
    """Work until asked to stop."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = Worker(
        {"plain": handle, "limited": handle},
        url,
        server=name,
        capabilities=[kind],
        options=OPTIONS,
        scheduler=SchedulerOptions(
            tick=0.1,
            recover=0.3,
            mend=1.0,
            term=1,
            max_stalls=int(max_stalls),
            forget_workers=1,
        ),
    )
    while True:
        try:
            await worker.start()
            break
        except StoreError:
            await asyncio.sleep(0.1)
    await stopped.wait()
    await worker.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
