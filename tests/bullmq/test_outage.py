"""A worker whose store goes away: it says so once, and once that it is back."""

import asyncio
import logging

import pytest

from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, Worker
from waystation.core.store.embedded import Ephemeral


async def seen(caplog: pytest.LogCaptureFixture, event: str) -> logging.LogRecord:
    async with asyncio.timeout(LIMIT_S):
        while True:
            for record in caplog.records:
                if record.getMessage().split()[0] == event:
                    return record
            await asyncio.sleep(0.01)


async def test_a_store_that_goes_and_comes_back_is_mentioned_once_each(
    own_server: Ephemeral, caplog: pytest.LogCaptureFixture
) -> None:
    async def send(job: Job) -> str:
        return "sent"

    async with Worker("mail", send, own_server.url, poll=0.1):
        own_server.kill()
        gone = await seen(caplog, "store_unreachable")
        await asyncio.sleep(0.5)
        await asyncio.to_thread(own_server.restart)
        back = await seen(caplog, "store_back")
        async with Queue("mail", own_server.url) as queue:
            job = await queue.add("send")
            assert await job.wait() == "sent"

    assert gone.levelname == back.levelname == "WARNING"
    assert vars(gone)["server"] == f"{own_server.url}/0"
    events = [record.getMessage().split()[0] for record in caplog.records]
    assert events.count("store_unreachable") == 1
