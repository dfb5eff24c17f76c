"""A round keeps what happened to jobs, on the Java that comes as a wheel."""

import asyncio
import subprocess
import sys

from waystation.bullmq import Job, Queue, Worker

waystation = [sys.executable, "-m", "waystation", "pipeline"]
place = ["--history", "rounds"]


async def send(job: Job) -> str:
    return "sent"


async def work() -> None:
    async with Queue("spark") as queue, Worker("spark", send):
        for job in await queue.add_many([("send", {"n": n}) for n in range(20)]):
            await job.wait(timeout=60)


asyncio.run(work())
subprocess.check_call([*waystation, "run", "--once", *place])
question = "select count(*) as many from items where state = 'completed'"
answer = subprocess.check_output([*waystation, "sql", "--json", *place, question], text=True)
assert '"many":20' in answer, answer
