"""How fast one worker of BullMQ's own Python port empties a full queue of jobs that do nothing.

It runs in an environment of its own (see run.py), so it imports nothing of this project.
"""

import argparse
import asyncio
import importlib
import json
import os
import time
from importlib.metadata import version
from typing import Any

CHUNK = 1000


async def main(url: str, jobs: int, concurrency: int, loop: str) -> None:
    bullmq: Any = importlib.import_module("bullmq")
    name = f"bench-{os.getpid()}-{time.time_ns()}"
    queue = bullmq.Queue(name, {"connection": url})
    for first in range(0, jobs, CHUNK):
        numbers = range(first, min(first + CHUNK, jobs))
        await queue.addBulk([{"name": "job", "data": {"n": n}, "opts": {}} for n in numbers])

    emptied = asyncio.Event()
    left = jobs

    async def nothing(job: Any, token: str) -> None:
        pass

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            emptied.set()

    options = {"connection": url, "concurrency": concurrency, "autorun": False}
    worker = bullmq.Worker(name, nothing, options)
    worker.on("completed", count)
    start, cpu = time.perf_counter(), time.process_time()
    running = asyncio.ensure_future(worker.run())
    await emptied.wait()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu

    figures = {
        "peer": "bullmq-python",
        "version": version("bullmq"),
        "redisPy": version("redis"),
        "loop": loop,
        "task": "drain",
        "jobs": jobs,
        "concurrency": concurrency,
        "seconds": round(seconds, 3),
        "perSecond": round(jobs / seconds),
        "cpuMicrosPerJob": round(cpu * 1e6 / jobs, 1),
    }
    print(json.dumps(figures), flush=True)
    await worker.close(True)
    running.cancel()
    await queue.obliterate(True)
    await queue.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    given = parser.parse_args()
    run: Any = asyncio.run if given.loop == "asyncio" else importlib.import_module("uvloop").run
    run(main(given.url, given.jobs, given.concurrency, given.loop))
