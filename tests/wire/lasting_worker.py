"""A worker in a process of its own, which takes jobs, says so and never ends them.

Run as `python -m tests.wire.lasting_worker URL QUEUE`.
"""

import asyncio
import sys

from waystation.bullmq import Job, Worker

LOCK_MS = 400
CHECK_MS = 100


async def hold(job: Job) -> None:
    print(job.id, flush=True)
    await asyncio.Event().wait()


async def main(url: str, queue: str) -> None:
    worker = Worker(
        queue, hold, url, concurrency=2, lease=LOCK_MS / 1000, stalled_interval=CHECK_MS / 1000
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
