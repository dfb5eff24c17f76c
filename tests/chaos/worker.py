"""A worker in a process of its own, to be killed."""

import asyncio
import os
import random
import signal
import sys

from waystation.bullmq import Job, Worker
from waystation.core.errors import StoreError

LOCK_MS = 600
STALLED_INTERVAL_MS = 300


async def handle(job: Job) -> int:
    """Take a while; fail now and then, or take the whole process along.

    The result says by which claim it was made, for the judge.
    """
    if job.name == "steps":
        return await in_steps(job)
    if job.name == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    # A slow one is still running somewhere else when a frozen worker comes back with its result.
    await asyncio.sleep(2 * LOCK_MS / 1000 if job.name == "slow" else random.uniform(0, 0.06))
    if job.name == "moody" and job.attempts_made == 0:
        raise ConnectionError("not the first time")
    return job.attempts_started


async def in_steps(job: Job) -> int:
    """Do as many steps as the job asks for, leave once, and add up what they returned."""
    half = job.data["steps"] // 2
    done = [await job.step(f"step {number}", one) for number in range(half)]
    await job.sleep(0.001)
    done += [await job.step(f"step {half + number}", one) for number in range(half)]
    return sum(done)


async def one() -> int:
    """What every step returns."""
    return 1


async def main(url: str, queue: str, max_stalled: int, concurrency: int) -> None:
    """Work until asked to stop."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = Worker(
        queue,
        handle,
        url,
        concurrency=concurrency,
        lease=LOCK_MS / 1000,
        stalled_interval=STALLED_INTERVAL_MS / 1000,
        max_stalled=max_stalled,
        poll=0.2,
        grace=2,
    )
    while not await started(worker):
        await asyncio.sleep(0.1)
    await stopped.wait()
    await worker.close()


async def started(worker: Worker) -> bool:
    """Begin, unless the store happens to be away just now."""
    try:
        await worker.start()
    except StoreError:
        return False
    return True


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
