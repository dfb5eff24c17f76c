"""A worker's listeners: which events there are, and that none can harm the worker."""

import asyncio
import functools
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, ManualWorker, Queue, Worker
from waystation.bullmq.callbacks import WorkerEvent
from waystation.bullmq.fields import JobFields
from waystation.core.errors import InvalidOption
from waystation.core.runtime import listeners


class Boom(Exception):
    """What a listener raises."""


async def work_on(worker: Worker, url: str, *, jobs: int = 2) -> None:
    """Add jobs, and wait until all of them have ended in the store."""
    async with Queue("mail", url) as queue, worker:
        for _ in range(jobs):
            await queue.add("x", attempts=1)
        async with asyncio.timeout(LIMIT_S):
            while sum((await queue.counts("completed", "failed")).values()) < jobs:
                await asyncio.sleep(0.005)
        assert worker.is_running


async def nothing(job: Job) -> None: ...


@pytest.mark.parametrize("error", [Boom, SystemExit, asyncio.CancelledError, StopIteration])
@pytest.mark.parametrize("event", ["active", "completed", "drained"])
async def test_a_listener_that_raises_is_told_as_an_error_and_the_worker_goes_on(
    redis_url: str, event: WorkerEvent, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[BaseException] = []

    def raising(*_: Any) -> None:
        raise error

    worker = Worker("mail", nothing, redis_url)
    worker.on(event, raising)
    worker.on("error", errors.append)
    await work_on(worker, redis_url)

    assert errors
    assert {type(each) for each in errors} == {error}
    assert "listener_failed" in caplog.text


async def test_a_listener_of_errors_that_raises_is_logged_and_not_told_again(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[BaseException] = []

    def raising(*_: Any) -> None:
        raise Boom("first")

    def raising_again(error: BaseException) -> None:
        errors.append(error)
        raise Boom("second")

    worker = Worker("mail", nothing, redis_url)
    worker.on("completed", raising)
    worker.on("error", raising_again)
    await work_on(worker, redis_url, jobs=1)

    assert [str(error) for error in errors] == ["first"]
    assert "second" in caplog.text


async def test_a_coroutine_is_a_listener_too_and_is_awaited_in_order(redis_url: str) -> None:
    ids: list[str] = []

    async def completed(job: Job, result: Any) -> None:
        # The first one takes longest, and still ends first.
        await asyncio.sleep(0.02 if not ids else 0)
        ids.append(job.id)

    worker = Worker("mail", nothing, redis_url)
    worker.on("completed", completed)
    await work_on(worker, redis_url, jobs=5)

    assert ids == ["1", "2", "3", "4", "5"]


async def test_a_coroutine_that_fails_is_told_as_an_error(redis_url: str) -> None:
    errors: list[BaseException] = []

    async def completed(job: Job, result: Any) -> None:
        await asyncio.sleep(0)
        raise Boom(job.id)

    worker = Worker("mail", nothing, redis_url)
    worker.on("completed", completed)
    worker.on("error", errors.append)
    await work_on(worker, redis_url)

    assert [str(error) for error in errors] == ["1", "2"]


async def test_a_coroutine_that_does_not_end_holds_up_neither_jobs_nor_the_end(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "_FINISH_WITHIN_S", 0.05)

    async def completed(job: Job, result: Any) -> None:
        await asyncio.sleep(3600)

    worker = Worker("mail", nothing, redis_url)
    worker.on("completed", completed)
    async with asyncio.timeout(LIMIT_S):
        await work_on(worker, redis_url)


async def test_a_listener_may_close_its_own_worker(redis_url: str) -> None:
    worker = Worker("mail", nothing, redis_url)

    closed = asyncio.Event()

    async def completed(job: Job, result: Any) -> None:
        await worker.close()
        closed.set()

    worker.on("completed", completed)
    async with Queue("mail", redis_url) as queue:
        await worker.start()
        await queue.add("x")
        async with asyncio.timeout(LIMIT_S):
            await closed.wait()
    assert not worker.is_running


async def test_a_listening_object_that_raises_does_not_end_the_worker(redis_url: str) -> None:
    errors: list[BaseException] = []

    class Raising:
        def settled(self, settled: Any) -> None:
            raise Boom("settled")

        async def claimed(self, claims: Any) -> None:
            raise Boom("claimed")

    worker = Worker("mail", nothing, redis_url, listener=Raising())  # pyright: ignore[reportArgumentType]
    worker.on("error", errors.append)
    await work_on(worker, redis_url, jobs=1)

    assert sorted(str(error) for error in errors) == ["claimed", "settled"]


# --- the events ----------------------------------------------------------------------------------


async def test_a_worker_tells_what_becomes_of_it(redis_url: str) -> None:
    calls: list[str] = []
    worker = Worker("mail", nothing, redis_url)
    events: tuple[WorkerEvent, ...] = ("ready", "paused", "resumed", "closing", "closed")
    for event in events:
        worker.on(event, functools.partial(calls.append, event))

    async with worker:
        worker.pause()
        worker.resume()

    assert calls == ["ready", "paused", "resumed", "closing", "closed"]


async def test_a_worker_tells_that_there_is_nothing_left(redis_url: str) -> None:
    calls: list[str] = []
    drained = asyncio.Event()
    worker = Worker("mail", nothing, redis_url, poll=0.01)

    def on_completed(job: Job, result: Any) -> None:
        calls.append(job.id)

    def on_drained() -> None:
        calls.append("drained")
        drained.set()

    worker.on("completed", on_completed)

    async with Queue("mail", redis_url) as queue:
        await queue.add_many([("x", None)] * 2)
        worker.on("drained", on_drained)
        async with worker, asyncio.timeout(LIMIT_S):
            await drained.wait()
            await asyncio.sleep(0.05)
            assert calls == ["1", "2", "drained"]
            drained.clear()
            await queue.add("x")
            await drained.wait()

    assert calls == ["1", "2", "drained", "3", "drained"]


async def test_a_worker_tells_the_progress_of_its_jobs(redis_url: str) -> None:
    calls: list[tuple[str, Any]] = []

    async def handle(job: Job) -> None:
        await job.update_progress(50)
        await job.update_progress({"at": "end"})

    worker = Worker("mail", handle, redis_url)

    def on_progress(job: Job, progress: Any) -> None:
        calls.append((job.id, progress))

    worker.on("progress", on_progress)
    await work_on(worker, redis_url, jobs=1)

    assert calls == [("1", 50), ("1", {"at": "end"})]


async def test_a_worker_tells_the_jobs_it_has_found_stalled(harness: Harness) -> None:
    calls: list[tuple[str, str]] = []
    id = await harness.add()
    await harness.claim_one()
    await harness.redis.delete(harness.keys.of(id).lock)
    worker = Worker("mail", nothing, harness.store, stalled_interval=0.02)

    def on_stalled(id: str, state: str) -> None:
        calls.append((id, state))

    worker.on("stalled", on_stalled)
    async with worker, asyncio.timeout(LIMIT_S):
        while not calls:
            await asyncio.sleep(0.005)

    assert calls == [(id, "active")]


async def test_a_listener_can_be_called_once_or_no_more(redis_url: str) -> None:
    calls: list[str] = []

    def always(job: Job, result: Any) -> None:
        calls.append(f"always {job.id}")

    def never(job: Job, result: Any) -> None:
        calls.append("never")

    def first(job: Job, result: Any) -> None:
        calls.append(f"first {job.id}")

    worker = Worker("mail", nothing, redis_url)
    worker.once("completed", first)
    worker.on("completed", always)
    worker.on("completed", never)
    assert worker.off("completed", never)
    assert not worker.off("completed", never)
    await work_on(worker, redis_url)

    assert calls == ["first 1", "always 1", "always 2"]


def test_a_listener_must_be_a_function(redis_url: str) -> None:
    with pytest.raises(InvalidOption, match="callback must be a function, got 7"):
        Worker("mail", nothing, redis_url).on("completed", 7)  # pyright: ignore[reportCallIssue, reportArgumentType]


FACTS = [name for name, each in vars(JobFields).items() if isinstance(each, property)]


def facts(job: Job | None) -> dict[str, Any]:
    """Everything that a job says of itself."""
    return {name: getattr(job, name) for name in FACTS}


@pytest.mark.parametrize("way", ["handler", "completed", "failed", "manual"])
async def test_a_job_says_of_itself_what_is_stored_wherever_somebody_gets_it(
    redis_url: str, way: str
) -> None:
    seen: list[tuple[dict[str, Any], dict[str, Any]]] = []

    async def compare(job: Job, *_: Any) -> None:
        seen.append((facts(job), facts(await queue.get_job(job.id))))

    async def handler(job: Job) -> int:
        if way == "handler":
            await compare(job)
        if way == "failed":
            raise Boom
        return 1

    async with Queue("mail", redis_url) as queue, asyncio.timeout(LIMIT_S):
        await queue.add("x", {"n": 1}, attempts=1)
        if way == "manual":
            async with ManualWorker("mail", redis_url) as hand:
                job = await hand.get_next_job()
                assert job
                await compare(job)
        else:
            worker = Worker("mail", handler, redis_url)
            worker.on("completed" if way == "handler" else way, compare)  # type: ignore[call-overload]
            async with worker:
                while not seen:
                    await asyncio.sleep(0.005)

    fields, stored = seen[0]
    assert fields == stored
    assert fields["started_at"] is not None
    assert fields["processed_by"]


async def test_a_job_knows_in_every_listener_when_it_started(redis_url: str) -> None:
    calls: dict[str, tuple[Any, Any]] = {}

    async def handler(job: Job) -> None:
        await job.update_progress(1)

    worker = Worker("mail", handler, redis_url)
    events: tuple[WorkerEvent, ...] = ("active", "progress", "completed")

    def listen(event: str, job: Job, *_: Any) -> None:
        calls[event] = (job.started_ms, job.processed_by)

    for event in events:
        worker.on(event, functools.partial(listen, event))  # type: ignore[call-overload]
    await work_on(worker, redis_url, jobs=1)

    assert set(calls) == set(events)
    assert len(set(calls.values())) == 1
    assert None not in calls["active"]
