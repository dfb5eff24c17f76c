"""The worker as a BullMQ user meets it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from waystation.bullmq import (
    Backoff,
    Job,
    JobOptions,
    JobRateLimited,
    Limit,
    Queue,
    Unrecoverable,
    Worker,
)
from waystation.core.errors import InvalidOption, StoreError, StoreUnsuitable, WorkError
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral


async def until(condition: Callable[[], Awaitable[bool]], *, within: float = 15) -> None:
    async with asyncio.timeout(within):
        while not await condition():
            await asyncio.sleep(0.005)


async def finished(queue: Queue, count: int) -> None:
    async def all_finished() -> bool:
        counts = await queue.counts("completed", "failed")
        return sum(counts.values()) >= count

    await until(all_finished)


async def test_a_job_is_handled_and_its_result_kept(redis_url: str) -> None:
    async def handle(job: Job) -> dict[str, Any]:
        return {"sent": job.data["to"]}

    async with Queue("mail", redis_url) as queue, Worker("mail", handle, redis_url):
        added = await queue.add("send", {"to": "ada@example.com"})
        await finished(queue, 1)
        job = await queue.get_job(added.id)

    assert job is not None
    assert job.result == {"sent": "ada@example.com"}
    assert job.attempts_made == 1
    assert job.processed_by


async def test_a_plain_function_is_a_handler_too(redis_url: str) -> None:
    def handle(job: Job) -> int:
        return job.data + 1

    async with Queue("sums", redis_url) as queue, Worker("sums", handle, redis_url):
        added = await queue.add("sum", 41)
        await finished(queue, 1)
        job = await queue.get_job(added.id)

    assert job is not None
    assert job.result == 42


async def test_a_handler_for_each_name(redis_url: str) -> None:
    def double(job: Job) -> int:
        return job.data * 2

    async def negate(job: Job) -> int:
        return -job.data

    handlers = {"double": double, "negate": negate}
    async with Queue("sums", redis_url) as queue, Worker("sums", handlers, redis_url):
        jobs = [await queue.add(name, 4, attempts=3) for name in ("double", "negate", "halve")]
        await finished(queue, 3)
        double_job, negate_job, halve_job = [await queue.get_job(job.id) for job in jobs]

    assert double_job is not None
    assert double_job.result == 8
    assert negate_job is not None
    assert negate_job.result == -4
    assert halve_job is not None
    # It is not tried again: the name has no handler the next time either.
    assert halve_job.attempts_made == 1
    assert halve_job.failed_reason == "no handler for jobs named 'halve'; there are: double, negate"


async def test_a_failing_job_is_tried_again_and_keeps_the_newest_tracebacks(redis_url: str) -> None:
    async def handle(job: Job) -> str:
        if job.attempts_made < 2:
            raise RuntimeError(f"attempt {job.attempts_made + 1}")
        return "at last"

    async with Queue("mail", redis_url) as queue, Worker("mail", handle, redis_url):
        added = await queue.add(
            "send", {}, attempts=3, backoff=Backoff.fixed(0.01), stack_trace_limit=1
        )
        await finished(queue, 1)
        job = await queue.get_job(added.id)

    assert job is not None
    assert job.result == "at last"
    assert job.attempts_made == 3
    assert job.failed_reason == "attempt 2"
    assert len(job.stacktrace) == 1
    assert "attempt 2" in job.stacktrace[0]


async def test_an_unrecoverable_error_fails_at_once(redis_url: str) -> None:
    async def handle(job: Job) -> None:
        raise Unrecoverable("no such address")

    async with Queue("mail", redis_url) as queue, Worker("mail", handle, redis_url):
        added = await queue.add("send", {}, attempts=5)
        await finished(queue, 1)
        job = await queue.get_job(added.id)

    assert job is not None
    assert job.failed_reason == "no such address"
    assert job.attempts_made == 1


@pytest.mark.parametrize("pause", [0.005, None])
async def test_a_custom_backoff_decides_the_pause_or_the_end(
    redis_url: str, pause: float | None
) -> None:
    asked: list[tuple[int, str]] = []

    async def strategy(made: int, name: str, error: BaseException, job: Job) -> float | None:
        asked.append((made, name))
        return pause

    async def handle(job: Job) -> None:
        raise RuntimeError("no")

    worker = Worker("mail", handle, redis_url, backoff_strategy=strategy)
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("send", {}, attempts=3, backoff=Backoff.custom("tides"))
        await finished(queue, 1)

    assert asked == ([(1, "tides"), (2, "tides")] if pause else [(1, "tides")])


async def test_a_delayed_job_runs_when_it_is_due_not_at_the_next_whole_second(
    redis_url: str,
) -> None:
    late: list[float] = []

    async def handle(job: Job) -> None:
        late.append(time.time() * 1000 - job.created_ms - job.options.raw["delay"])

    async with Queue("mail", redis_url) as queue, Worker("mail", handle, redis_url):
        # A busy machine may be late some times, but a wait of whole seconds always is.
        for tries in range(1, 11):
            await asyncio.sleep(1 - time.time() % 1)
            await queue.add("send", {}, delay=0.1)
            await finished(queue, tries)
            if late[-1] < 500:
                break

    assert min(late) < 500
    assert all(ms > -5 for ms in late)


async def test_the_limiter_holds_over_all_workers_of_the_queue(
    redis_url: str, redis: Redis
) -> None:
    async def handle(job: Job) -> None: ...

    limiter = Limit(max=2, duration=0.3)
    workers = [Worker("mail", handle, redis_url, limiter=limiter, concurrency=10) for _ in range(2)]
    async with Queue("mail", redis_url) as queue:
        await queue.add_many([("send", None)] * 6)
        async with workers[0], workers[1]:
            await finished(queue, 6)
        started = sorted(job.started_ms or 0 for job in await queue.get_jobs("completed"))

    windows = [later - earlier for earlier, later in zip(started, started[2:], strict=False)]
    assert min(windows) >= 295


async def test_a_rate_limited_handler_puts_its_job_back_without_cost(redis_url: str) -> None:
    runs = 0

    async def handle(job: Job) -> str:
        nonlocal runs
        runs += 1
        if runs == 1:
            await queue.limits.rate_limit(0.05)
            raise JobRateLimited("come back later")
        return "done"

    worker = Worker("mail", handle, redis_url, limiter=Limit(max=100, duration=1))
    async with Queue("mail", redis_url) as queue, worker:
        added = await queue.add("send", {}, attempts=1)
        await finished(queue, 1)
        job = await queue.get_job(added.id)

    assert runs == 2
    assert job is not None
    assert job.result == "done"
    assert job.attempts_made == 1


async def test_a_batch_handler_gets_many_jobs_and_each_ends_on_its_own(redis_url: str) -> None:
    sizes: list[int] = []

    async def handle(jobs: list[Job]) -> list[Any]:
        sizes.append(len(jobs))
        return [ValueError("odd") if job.data % 2 else job.data for job in jobs]

    async with Queue("sums", redis_url) as queue:
        await queue.add_many([("sum", number, JobOptions(attempts=1)) for number in range(10)])
        async with Worker("sums", handle, redis_url, batch=5):
            await finished(queue, 10)
        counts = await queue.counts("completed", "failed")

    assert counts == {"completed": 5, "failed": 5}
    assert max(sizes) == 5


async def test_a_job_that_takes_too_long_fails(redis_url: str) -> None:
    async def handle(job: Job) -> None:
        await asyncio.sleep(60)

    async with Queue("mail", redis_url) as queue, Worker("mail", handle, redis_url, timeout=0.02):
        added = await queue.add("send", {}, attempts=1)
        await finished(queue, 1)
        job = await queue.get_job(added.id)

    assert job is not None
    assert job.failed_reason == "the handler was stopped after 0.02 s"


async def test_a_running_job_can_be_cancelled(redis_url: str) -> None:
    begun = asyncio.Event()

    async def handle(job: Job) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with Queue("mail", redis_url) as queue, Worker("mail", handle, redis_url) as worker:
        added = await queue.add("send", {}, attempts=1)
        await begun.wait()
        assert worker.cancel_job(added.id)
        await finished(queue, 1)
        job = await queue.get_job(added.id)

    assert job is not None
    assert job.failed_reason == f"job {added.id} was cancelled"


async def test_all_running_jobs_can_be_cancelled_at_once(redis_url: str) -> None:
    begun = asyncio.Semaphore(0)

    async def handle(job: Job) -> None:
        begun.release()
        await asyncio.sleep(60)

    async with (
        Queue("mail", redis_url) as queue,
        Worker("mail", handle, redis_url, concurrency=2) as worker,
    ):
        once = JobOptions(attempts=1)
        await queue.add_many([("send", {}, once), ("send", {}, once)])
        await begun.acquire()
        await begun.acquire()
        assert worker.cancel_all_jobs() == 2
        await finished(queue, 2)
        assert (await queue.counts("failed"))["failed"] == 2


async def test_a_closed_worker_hands_back_what_it_has_not_begun(redis_url: str) -> None:
    begun = asyncio.Event()

    async def handle(job: Job) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with Queue("mail", redis_url) as queue:
        await queue.add_many([("send", None)] * 3)
        async with Worker("mail", handle, redis_url, concurrency=2, grace=0.01):
            await begun.wait()
        counts = await queue.counts("waiting", "active")

    assert counts == {"waiting": 3, "active": 0}


async def test_what_finishes_as_asked_is_forgotten(redis_url: str, redis: Redis) -> None:
    async def handle(job: Job) -> None: ...

    worker = Worker("mail", handle, redis_url, remove_on_complete=2)
    async with Queue("mail", redis_url) as queue:
        await queue.add("send", {}, remove_on_complete=True)
        await queue.add_many([("send", None)] * 4)
        drained: list[int] = []
        async with worker:

            async def empty() -> bool:
                counts = await queue.counts("waiting", "active")
                drained.append(sum(counts.values()))
                return drained[-1] == 0

            await until(empty)
        ids = [job.id for job in await queue.get_jobs("completed")]

    assert sorted(ids) == ["4", "5"]
    assert await redis.exists("bull:mail:1") == 0


async def test_a_worker_survives_the_server_going_away(own_server: Ephemeral) -> None:
    handled: list[str] = []

    async def handle(job: Job) -> None:
        handled.append(job.id)

    async def added() -> bool:
        try:
            await queue.add("send", {})
        except StoreError:
            return False
        return True

    async def handled_again() -> bool:
        return len(handled) >= 2

    worker = Worker("mail", handle, own_server.url, poll=0.2)
    async with Queue("mail", own_server.url) as queue, worker:
        await queue.add("send", {})
        await finished(queue, 1)
        own_server.kill()
        await asyncio.sleep(0.3)
        own_server.restart()
        await until(added)
        await until(handled_again)


async def test_callbacks_tell_what_happens_here(redis_url: str) -> None:
    calls: list[tuple[str, str]] = []

    async def handle(job: Job) -> None:
        if job.name == "bad":
            raise RuntimeError("no")

    worker = Worker("mail", handle, redis_url)

    def completed(job: Job, result: Any) -> None:
        calls.append(("completed", job.name))

    def failed(job: Job, error: BaseException) -> None:
        calls.append(("failed", job.name))

    worker.on("completed", completed)
    worker.on("failed", failed)
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("good", {})
        await queue.add("bad", {}, attempts=1)
        await finished(queue, 2)

    assert calls == [("completed", "good"), ("failed", "bad")]


async def test_a_worker_that_has_not_started_says_so(redis_url: str) -> None:
    worker = Worker("mail", print, redis_url)

    with pytest.raises(WorkError, match="has not been started"):
        worker.pause()


@pytest.mark.parametrize(
    "options", [{"concurrency": 0}, {"lease": 0}, {"stalled_interval": -1}, {"batch": -1}]
)
def test_senseless_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(options))):
        Worker("mail", print, "redis://127.0.0.1:1", **options)  # pyright: ignore[reportArgumentType]


def test_a_limiter_that_lets_nothing_through_is_refused() -> None:
    with pytest.raises(InvalidOption, match="max of a limit must be at least 1"):
        Worker("mail", print, "redis://127.0.0.1:1", limiter=Limit(0, 0))


async def test_a_worker_refuses_a_server_that_throws_work_away(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.config_set("maxmemory-policy", "allkeys-lru")

    with pytest.raises(StoreUnsuitable, match="noeviction"):
        await Worker("mail", print, own_server.url).start()
