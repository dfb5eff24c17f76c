"""Plain handlers, in threads and in processes, do with their job what a coroutine does."""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import (
    FlowNode,
    FlowProducer,
    Job,
    JobDelayed,
    JobFailed,
    JobRateLimited,
    JobWaiting,
    JobWaitingForChildren,
    Queue,
    SyncJob,
    Worker,
)
from waystation.core.errors import Cancelled, WrongState

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def with_await(job: Job) -> Any:
    await job.update_progress(50, "halfway")
    lines = [await job.log("one"), await job.log("two")]
    await job.update_data({"to": "grace"})
    await job.extend_lock(AN_HOUR)
    parent = await job.get_parent()
    assert parent
    await parent.log("from below")
    answers = [
        job.data,
        job.progress,
        lines,
        list(await job.logs()),
        await job.state(),
        await job.is_active(),
        list((await job.children_values()).values()),
        list(await job.dependency_counts()),
        list(await parent.logs()),
        list(await parent.dependency_counts()),
        await parent.state(),
    ]
    await job.clear_logs(keep=1)
    await job.refresh()
    return [*answers, job.data, job.attempts_started]


def without_await(job: SyncJob) -> Any:
    job.update_progress(50, "halfway")
    lines = [job.log("one"), job.log("two")]
    job.update_data({"to": "grace"})
    job.extend_lock(AN_HOUR)
    parent = job.get_parent()
    assert parent
    parent.log("from below")
    answers = [
        job.data,
        job.progress,
        lines,
        list(job.logs()),
        job.state(),
        job.is_active(),
        list(job.children_values().values()),
        list(job.dependency_counts()),
        list(parent.logs()),
        list(parent.dependency_counts()),
        parent.state(),
    ]
    job.clear_logs(keep=1)
    job.refresh()
    return [*answers, job.data, job.attempts_started]


def of_each(jobs: list[SyncJob]) -> Any:
    return [without_await(job) for job in jobs]


WAYS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "loop": (with_await, {}),
    "thread": (without_await, {}),
    "process": (without_await, {"process": True}),
    "batch in a thread": (of_each, {"batch": 5}),
    "batch in a process": (of_each, {"batch": 5, "process": True}),
    "coroutine in a process": (with_await, {"process": True}),
}


async def test_what_plain_handlers_do_is_what_a_coroutine_does(
    harness: Harness, redis_url: str
) -> None:
    results: dict[str, Any] = {}
    stored: dict[str, Any] = {}
    async with FlowProducer(harness.store) as flows, asyncio.timeout(LIMIT_S):
        for way, (handler, options) in WAYS.items():
            leaf = FlowNode(name="leaf", queue="leaves", data=7)
            work = FlowNode(name="work", queue="mail", data={"to": "ada"}, children=[leaf])
            added = await flows.add(FlowNode(name="above", queue="above", children=[work]))
            job = added.children[0].job
            async with (
                Worker("leaves", lambda job: job.data, harness.store),
                Worker("mail", handler, harness.store, **options),
            ):
                results[way] = await job.wait()
            await job.refresh()
            stored[way] = (job.data, job.progress, (await job.logs()).lines)

    assert results["loop"][:4] == [
        {"to": "grace"},
        {"progress": 50, "message": "halfway"},
        [1, 2],
        [["one", "two"], 2],
    ]
    assert all(result == results["loop"] for result in results.values()), results
    assert stored["loop"] == ({"to": "grace"}, {"progress": 50, "message": "halfway"}, ["two"])
    assert all(each == stored["loop"] for each in stored.values()), stored


def delay(job: SyncJob) -> str:
    if job.attempts_started == 1:
        job.move_to_delayed(datetime.now(UTC) + timedelta(milliseconds=1))
        raise JobDelayed
    return "moved"


def wait(job: SyncJob) -> str:
    if job.attempts_started == 1:
        job.move_to_wait()
        raise JobWaiting
    return "moved"


def limit(job: SyncJob) -> str:
    if job.attempts_started == 1:
        job.rate_limit(0.001)
        raise JobRateLimited
    return "moved"


def wait_for_children(job: SyncJob) -> str:
    if job.move_to_waiting_children():
        raise JobWaitingForChildren
    return "moved"


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
@pytest.mark.parametrize("handler", [delay, wait, limit, wait_for_children])
async def test_a_plain_handler_moves_its_job(
    harness: Harness, queue: Queue, handler: Callable[[SyncJob], str], process: bool
) -> None:
    job = await queue.add("work", attempts=1)
    async with Worker("mail", handler, harness.store, process=process), asyncio.timeout(LIMIT_S):
        assert await job.wait() == "moved"
    await job.refresh()
    assert job.attempts_made == 1


def discard(job: SyncJob) -> None:
    job.discard()
    assert job.discarded
    raise ValueError("no use")


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
async def test_a_plain_handler_makes_a_failure_the_last(
    harness: Harness, queue: Queue, process: bool
) -> None:
    job = await queue.add("work", attempts=5)
    async with Worker("mail", discard, harness.store, process=process), asyncio.timeout(LIMIT_S):
        with pytest.raises(JobFailed, match="no use"):
            await job.wait()
    await job.refresh()
    assert job.attempts_made == 1


def ask_too_much(job: SyncJob) -> str:
    try:
        job.promote()
    except WrongState as error:
        return str(error)
    return "promoted"


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
async def test_what_is_refused_is_refused_in_the_handler(
    harness: Harness, queue: Queue, process: bool
) -> None:
    job = await queue.add("work")
    async with (
        Worker("mail", ask_too_much, harness.store, process=process),
        asyncio.timeout(LIMIT_S),
    ):
        assert "delayed" in await job.wait()


@pytest.mark.parametrize("reason", ["cancelled", "lost", "timed out", "closed"])
async def test_a_thread_sees_that_it_should_stop(
    harness: Harness, queue: Queue, reason: str
) -> None:
    begun, ended = threading.Event(), threading.Event()
    refused: list[Exception] = []

    def work(job: SyncJob) -> None:
        begun.set()
        while not job.cancelled:
            time.sleep(0.001)
        try:
            job.update_progress(1)
        except Cancelled as error:
            refused.append(error)
        ended.set()

    options: dict[str, Any] = {"lost": {"renew": 0.01}, "timed out": {"timeout": 0.05}}
    worker = Worker("mail", work, harness.store, grace=0, **options.get(reason, {}))
    async with worker:
        job = await queue.add("work", attempts=1)
        await asyncio.to_thread(begun.wait, LIMIT_S)
        if reason == "cancelled":
            assert worker.cancel_job(job.id)
        if reason == "lost":
            await harness.call("SET", harness.keys.of(job.id).lock, "somebody else")
        if reason == "closed":
            await worker.close()
        await asyncio.to_thread(ended.wait, LIMIT_S)

    assert ended.is_set()
    assert len(refused) == 1


def forget_that_it_blocks(job: SyncJob) -> None:
    asyncio.run(job.update_progress(50))  # pyright: ignore[reportArgumentType]


async def test_a_call_that_is_taken_for_a_coroutine_fails_the_job(
    harness: Harness, queue: Queue
) -> None:
    job = await queue.add("work", attempts=1)
    async with Worker("mail", forget_that_it_blocks, harness.store), asyncio.timeout(LIMIT_S):
        with pytest.raises(JobFailed, match="a coroutine was expected"):
            await job.wait()


def test_a_plain_handlers_job_has_every_step_of_a_job() -> None:
    job, sync = _public(Job), _public(SyncJob)

    assert sorted(job - sync) == []
    assert sorted(sync - job) == ["cancelled"]
    for name in job & sync:
        theirs, ours = getattr(Job, name), getattr(SyncJob, name)
        assert isinstance(theirs, property) == isinstance(ours, property), name
        assert not inspect.iscoroutinefunction(ours)
        if inspect.isfunction(theirs) and name != "wait":
            wanted = inspect.signature(theirs).parameters.values()
            had = inspect.signature(ours).parameters.values()
            assert [(p.name, p.kind, p.default) for p in had] == [
                (p.name, p.kind, p.default) for p in wanted
            ], name


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - {"perform", "view"}


async def test_a_job_without_a_queue_says_so() -> None:
    job = Job("1", {b"name": b"work"}, None)
    with pytest.raises(WrongState, match="job 1 cannot reach a queue: it was made without one"):
        await job.update_progress(1)
