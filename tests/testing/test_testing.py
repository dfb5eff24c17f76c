"""Testing one's own handlers and producers, as the how-to page shows it."""

import time
from typing import Any

import pytest

from waystation.bullmq import Job, Queue, Worker
from waystation.errors import InvalidInput, InvalidOption, NoHandler, TimedOut, Unrecoverable
from waystation.tasks import Tasks
from waystation.testing import MemoryJob, embedded_server, run_jobs, run_until_empty


async def send(job: Job) -> str:
    await job.log(f"to {job.data['to']}")
    await job.update_progress(100)
    return "sent"


async def test_a_handler_runs_over_jobs_without_a_store() -> None:
    ann, bob = await run_jobs(send, MemoryJob({"to": "ann"}), MemoryJob({"to": "bob"}))
    assert (ann.state, ann.result, ann.attempt) == ("completed", "sent", 1)
    assert (bob.logs, bob.progress) == (["to bob"], 100)


async def test_a_sync_handler_runs_in_a_thread_with_the_same_job() -> None:
    def count(job: MemoryJob[str]) -> int:
        job.log("counting")
        return len(job.data)

    (done,) = await run_jobs(count, MemoryJob("four"))
    assert (done.result, done.logs) == (4, ["counting"])


async def test_a_job_runs_again_while_it_has_attempts_left() -> None:
    async def flaky(job: MemoryJob[None]) -> str:
        if job.attempt < 3:
            raise ConnectionError("the mail server is away")
        return "sent"

    good, bad = await run_jobs(
        flaky, MemoryJob(None, max_attempts=3), MemoryJob(None, max_attempts=2)
    )
    assert (good.state, good.result, good.attempt) == ("completed", "sent", 3)
    assert (bad.state, str(bad.error), bad.attempt) == ("failed", "the mail server is away", 2)


async def test_unrecoverable_failures_are_not_tried_again() -> None:
    async def refuse(job: MemoryJob[None]) -> None:
        raise Unrecoverable("no such address")

    (done,) = await run_jobs(refuse, MemoryJob(None, max_attempts=5))
    assert (done.state, done.attempt) == ("failed", 1)


async def test_handlers_are_chosen_by_name_and_limited_in_time() -> None:
    def sleep(job: MemoryJob[None]) -> None:
        time.sleep(1)

    handlers = {"mail": send, "slow": sleep}
    mail, slow, odd = await run_jobs(
        handlers,
        MemoryJob({"to": "ann"}, name="mail"),
        MemoryJob(None, name="slow"),
        MemoryJob(None, name="odd"),
        concurrency=3,
        timeout=0.05,
    )
    assert mail.result == "sent"
    assert isinstance(slow.error, TimedOut)
    assert isinstance(odd.error, NoHandler)


async def welcome(to: str) -> str:
    return to


async def test_what_needs_a_store_is_said() -> None:
    async def order(job: Job) -> None:
        await job.step("charge", send, job)

    (job,) = await run_jobs(order, MemoryJob(None))
    assert "a job in memory has no step, which needs a store: run the" in str(job.error)
    tasks: Any = Tasks()
    for wrong in (tasks, tasks.task(welcome), {"welcome": tasks.task(welcome, queue="mail")}):
        with pytest.raises(InvalidOption, match="tasks run in a sandbox"):
            await run_jobs(wrong, MemoryJob(None))


@pytest.mark.parametrize("data", [{"to": "ann"}, "ann", [MemoryJob(None)]])
async def test_data_that_is_no_job_yet_is_refused_with_what_to_write(data: Any) -> None:
    with pytest.raises(InvalidInput, match=r"run_jobs takes jobs, got .*; make one: MemoryJob"):
        await run_jobs(send, data)


async def test_producers_and_workers_meet_on_a_server_of_the_tests_own() -> None:
    async with embedded_server() as url, Queue("mail", url) as queue:
        job = await queue.add("welcome", {"to": "ann"})
        await run_until_empty(Worker("mail", send, url), queue)
        done = await queue.get_job(job.id)
        assert done is not None
        assert (await queue.state(job.id), done.result) == ("completed", "sent")


async def test_a_queue_that_does_not_get_empty_is_reported() -> None:
    async with embedded_server() as url, Queue("mail", url) as queue:
        await queue.add("later", {"to": "ann"}, delay=60_000)
        with pytest.raises(TimeoutError):
            await run_until_empty(Worker("mail", send, url), queue, timeout=0.3)
