"""Plain handlers report how far they are, and see that they should stop."""

import asyncio
import threading
import time

import pytest

from tests.routing.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.errors import Cancelled
from waystation.routing import Queue, SyncJob, Worker, WorkerOptions


def report(job: SyncJob) -> str:
    job.update_progress(75, "step 3 of 4", {"file": job.data["file"]})
    return job.type


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
async def test_a_plain_handler_tells_how_far_it_is(harness: Harness, process: bool) -> None:
    queue = Queue(harness.store)
    async with (
        Worker({"render": report}, harness.store, process=process),
        asyncio.timeout(LIMIT_S),
    ):
        id = (await queue.add("render", {"file": "x"})).id
        while await queue.state(id) != "completed":
            await asyncio.sleep(0.01)

    progress = await queue.progress(id)
    assert progress is not None
    assert (progress.percent, progress.message, progress.data) == (75, "step 3 of 4", {"file": "x"})


async def test_a_thread_sees_that_it_should_stop(harness: Harness) -> None:
    begun, ended = threading.Event(), threading.Event()
    refused: list[Exception] = []

    def render(job: SyncJob) -> None:
        begun.set()
        while not job.cancelled:
            time.sleep(0.001)
        try:
            job.update_progress(50)
        except Cancelled as error:
            refused.append(error)
        ended.set()

    worker = Worker({"render": render}, harness.store, options=WorkerOptions(grace=0))
    async with worker:
        id = (await Queue(harness.store).add("render", {})).id
        await asyncio.to_thread(begun.wait, LIMIT_S)
        assert worker.cancel_job(id)
        await asyncio.to_thread(ended.wait, LIMIT_S)

    assert len(refused) == 1
