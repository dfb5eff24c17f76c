"""Data and result of a job are sealed in the store, and open to those who have the key."""

import asyncio
import base64

from waystation.bullmq import Job, PayloadOptions, Queue, Worker

payloads = PayloadOptions(keys="k1=" + base64.b64encode(bytes(32)).decode())


async def greet(job: Job) -> str:
    return f"hello {job.data['to']}"


async def main() -> None:
    async with (
        Queue("sealed", payloads=payloads) as queue,
        Queue("sealed") as other,
        Worker("sealed", greet, payloads=payloads),
    ):
        job = await queue.add("greet", {"to": "ada"})
        assert await queue.wait(job.id, timeout=60) == "hello ada"
        [seen] = await other.get_jobs("completed")
        assert "ada" not in f"{seen.data} {seen.result}"


asyncio.run(main())
