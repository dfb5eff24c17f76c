"""The routing line while its workers die: every job ends once, and nothing is left over."""

import asyncio

import pytest

from tests.chaos.routing_run import run, start
from tests.support.patience import LIMIT_S
from tests.support.size import size
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral
from waystation.routing import Queue, Retry


@pytest.mark.slow
@pytest.mark.full
async def test_every_job_ends_once_whoever_is_killed(own_server: Ephemeral) -> None:
    """B-43 B-60"""
    account = await run(
        own_server.url, workers=3, count=size(500, full=1_500), kills=size(2, full=5)
    )

    assert account.verdict.is_clean, account.verdict
    assert account.left == []


@pytest.mark.slow
async def test_a_job_that_kills_its_worker_ends_with_a_reason_and_harms_no_other(
    own_server: Ephemeral,
) -> None:
    """F-B8"""
    async with await connect(own_server.url) as store, Queue(store) as queue:
        poison = (await queue.add("plain", {"poison": True}, retry=Retry(attempts=9))).id
        worker = await start(own_server.url, "cpu", max_stalls=1)
        try:
            async with asyncio.timeout(LIMIT_S):
                while await queue.state(poison) != "dead":
                    await asyncio.sleep(0.05)
                    if worker.returncode is not None:
                        worker = await start(own_server.url, "cpu", max_stalls=1)
                other = (await queue.add("plain", {})).id
                while await queue.state(other) != "completed":
                    await asyncio.sleep(0.05)
        finally:
            worker.kill()
            await worker.wait()
        (letter,) = [each async for each in queue.dead_letters]

    assert (letter.id, letter.reason) == (poison, "STALLED")
