"""What handlers of ours do to their jobs, as Node sees it."""

import asyncio
from typing import Any

import pytest

from tests.wire.node import NodePeer
from tests.wire.steps import Steps, one_start
from waystation.bullmq import Job, Queue, Worker
from waystation.core.store.connection import Store

HOUR = 3_600_000


async def test_an_unrecoverable_error_fails_the_job_at_once(
    any_node: NodePeer, store: Store
) -> None:
    remote, events = any_node.queue("q"), any_node.events("q")
    await remote.call("add", "work", {"do": [["unrecoverable", "stop"]]}, {"attempts": 5})
    async with Worker("q", Steps(store), store):
        [failed] = await events.until("failed")

    job = await remote.call("getJob", "1")
    assert failed["failedReason"] == job["failedReason"] == "stop"
    assert (job["attemptsMade"], job["attemptsStarted"]) == (1, 1)
    assert await events.journal(type="retries-exhausted") == []


@pytest.mark.parametrize(
    ("step", "event", "state"),
    [
        (["moveToDelayed", HOUR], "delayed", "delayed"),
        (["waitForChildren", [{"queue": "kids", "name": "kid"}]], "waiting-children", None),
    ],
)
async def test_a_job_that_our_handler_moved_has_made_no_attempt(
    step: list[Any], event: str, state: str | None, any_node: NodePeer, store: Store
) -> None:
    remote, events = any_node.queue("q"), any_node.events("q")
    await remote.call("add", "work", {"do": [step]}, {"attempts": 3})
    async with Worker("q", Steps(store), store):
        await events.until(event)
        await remote.poll("getJobState", "1", gives=state or event)

    job = await remote.call("getJob", "1")
    assert (job["attemptsMade"], job["attemptsStarted"]) == (0, 1)
    assert job["failedReason"] is None


async def test_node_goes_on_with_a_job_that_our_handler_let_wait(
    any_node: NodePeer, store: Store
) -> None:
    remote = any_node.queue("q")
    await remote.call("add", "work", {"do": [["moveToWait"], ["return", "went on"]]})
    async with one_start(store):
        await remote.poll("getJobState", "1", gives="waiting")
        theirs = any_node.worker("q")
        [completed] = await theirs.until("completed")

    assert completed["returnvalue"] == "went on"
    job = await remote.call("getJob", "1")
    assert (job["attemptsMade"], job["attemptsStarted"]) == (1, 2)


async def test_a_cancelled_job_fails_and_node_may_retry_it(node6: NodePeer, store: Store) -> None:
    remote = node6.queue("q")
    await remote.call("add", "work", {"do": [["never"]]}, {"jobId": "stuck"})
    async with Worker("q", Steps(store), store) as ours:
        await remote.poll("getJobState", "stuck", gives="active")
        while not ours.cancel_job("stuck"):
            await asyncio.sleep(0.01)
        await remote.poll("getJobState", "stuck", gives="failed")

    job = await remote.call("getJob", "stuck")
    assert "cancelled" in job["failedReason"]
    await remote.call_job("stuck", "updateData", {})
    await remote.call_job("stuck", "retry")
    await node6.worker("q").until("completed", jobId="stuck")


async def test_a_job_that_takes_too_long_is_tried_again(node6: NodePeer, store: Store) -> None:
    remote = node6.queue("q")
    await remote.call("add", "work", {"do": [["never"]]}, {"attempts": 2})
    async with Worker("q", Steps(store), store, timeout=0.05):
        await remote.poll("getJobState", "1", gives="failed")

    job = await remote.call("getJob", "1")
    assert (job["attemptsMade"], len(job["stacktrace"])) == (2, 2)
    assert job["failedReason"]


async def test_jobs_that_our_closing_worker_gives_back_are_run_by_node(
    node6: NodePeer, queue: Queue, store: Store
) -> None:
    async def never(_: Job) -> None:
        await asyncio.Event().wait()

    jobs = await queue.add_many([("work", n) for n in range(5)])
    remote = node6.queue("q")
    async with Worker("q", never, store, concurrency=5, grace=0.05):
        await remote.poll("getActiveCount", gives=5)
    assert await remote.call("getActiveCount") == 0

    worker = node6.worker("q")
    started = await worker.until("started", count=5)
    assert [entry["jobId"] for entry in started] == [job.id for job in jobs]
    assert {entry["attemptsMade"] for entry in started} == {0}
