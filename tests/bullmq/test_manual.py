"""Jobs that are taken one by one, and schedules that are not cron."""

import asyncio
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from tests.support.lossy import make_lossy
from tests.support.patience import LIMIT_S
from waystation.bullmq import (
    Backoff,
    Job,
    ManualWorker,
    Queue,
    Schedule,
    Scheduler,
    Worker,
    open_store,
)
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.scheduling import schedulers
from waystation.core.errors import InvalidOption, LeaseLost, StoreUnreachable


async def test_jobs_are_taken_and_ended_one_by_one(redis_url: str) -> None:
    async with Queue("mail", redis_url) as queue, ManualWorker("mail", redis_url) as worker:
        await queue.add_many([("send", 1), ("send", 2)])
        first, second = await worker.get_next_job(), await worker.get_next_job()
        assert first is not None
        assert second is not None
        assert await worker.get_next_job() is None
        await worker.complete(first, {"sent": True})
        await worker.fail(second, ValueError("no such address"))

        (done,) = await queue.get_jobs("completed")
        assert done.result == {"sent": True}
        (later,) = await queue.get_jobs("delayed")
        assert later.failed_reason == "no such address"
        assert later.attempts_made == 1


async def test_what_happens_to_jobs_is_told_to_listeners(redis_url: str, redis: Redis) -> None:
    calls: list[tuple[str, str]] = []
    lost = asyncio.Event()
    worker = ManualWorker("mail", redis_url, lease=0.1)

    def note(event: str) -> Callable[..., None]:
        def called(job: Job, *_: object) -> None:
            calls.append((event, job.name))

        return called

    for event in ("active", "completed", "failed", "progress", "refused", "lost"):
        worker.on(event, note(event))
    worker.on("lost", lambda job: lost.set())
    worker.once("closed", lambda: calls.append(("closed", "")))
    async with Queue("mail", redis_url) as queue, asyncio.timeout(LIMIT_S), worker:
        await queue.add_many([("good", 1), ("bad", 2), ("held", 3)])
        good, bad, held = [await worker.get_next_job() for _ in range(3)]
        assert good is not None
        assert bad is not None
        assert held is not None
        await good.update_progress(50)
        await worker.complete(good)
        await worker.fail(bad, ValueError("no"))
        await redis.set(QueueKeys("mail").of(held.id).lock, "another")
        await lost.wait()
        with pytest.raises(LeaseLost):
            await worker.complete(held)
    assert sorted(calls[:3]) == [("active", "bad"), ("active", "good"), ("active", "held")]
    assert calls[3:6] == [("progress", "good"), ("completed", "good"), ("failed", "bad")]
    assert calls[6:] == [("lost", "held"), ("closed", "")]


async def test_one_who_takes_jobs_by_hand_does_what_every_worker_does(redis_url: str) -> None:
    """A schedule whose job was lost goes on, and a deadline is kept."""
    keys = QueueKeys("mail")
    async with Queue("mail", redis_url) as queue, asyncio.timeout(LIMIT_S):
        id = await queue.schedulers.upsert("s", Schedule(every=3600))
        async with await open_store(redis_url) as store:
            await store.redis.delete(keys.of(id).job, keys.delayed, keys.wait, keys.marker)
            await store.redis.zadd(keys.repeat, {"s": 1})
            await store.redis.zadd(keys.deadlines, {"gone": 1})
            async with ManualWorker("mail", redis_url) as worker:
                while await queue.count() == 0 or await store.redis.exists(keys.deadlines):
                    await worker.get_next_job()


async def test_a_job_that_comes_ends_the_wait(redis_url: str) -> None:
    async with Queue("mail", redis_url) as queue, ManualWorker("mail", redis_url) as worker:
        waiting = asyncio.create_task(worker.get_next_job(wait=3600))
        await asyncio.sleep(0.05)
        added = await queue.add("send")
        job = await asyncio.wait_for(waiting, LIMIT_S)
        assert job is not None
        assert job.id == added.id


async def test_the_locks_of_taken_jobs_are_renewed(redis_url: str, redis: Redis) -> None:
    async with (
        Queue("mail", redis_url) as queue,
        ManualWorker("mail", redis_url, lease=0.6) as worker,
    ):
        await queue.add("send")
        job = await worker.get_next_job()
        assert job is not None
        async with asyncio.timeout(LIMIT_S):
            left = await redis.pttl(f"bull:mail:{job.id}:lock")
            while (now := await redis.pttl(f"bull:mail:{job.id}:lock")) <= left:
                left = now
                await asyncio.sleep(0.01)
        await worker.complete(job)


async def test_what_somebody_else_has_cannot_be_ended(redis_url: str, redis: Redis) -> None:
    async with Queue("mail", redis_url) as queue, ManualWorker("mail", redis_url) as worker:
        await queue.add("send")
        job = await worker.get_next_job()
        assert job is not None
        await redis.set(f"bull:mail:{job.id}:lock", "another")
        with pytest.raises(LeaseLost):
            await worker.complete(job)
        with pytest.raises(LeaseLost, match="is not held"):
            await worker.complete(job)


async def test_closing_gives_back_what_was_not_ended(redis_url: str) -> None:
    async with Queue("mail", redis_url) as queue:
        await queue.add("send")
        async with ManualWorker("mail", redis_url) as worker:
            assert await worker.get_next_job() is not None
        (job,) = await queue.get_jobs("waiting")
        assert job.attempts_made == 0


async def test_a_scheduler_goes_on_with_jobs_that_are_taken(redis_url: str) -> None:
    async with Queue("mail", redis_url) as queue, ManualWorker("mail", redis_url) as worker:
        await queue.schedulers.upsert("s", Schedule(every=3600))
        assert await worker.get_next_job(wait=LIMIT_S) is not None
        assert (await queue.counts("delayed"))["delayed"] == 1


async def test_a_repeat_strategy_says_when_a_custom_schedule_comes(redis_url: str) -> None:
    asked: list[str | None] = []

    async def in_a_moment(after: datetime, scheduler: Scheduler) -> datetime | None:
        asked.append(scheduler.pattern)
        return after + timedelta(milliseconds=20) if len(asked) < 4 else None

    done = itertools.count(1)
    enough = asyncio.Event()

    async def handle(job: Job) -> None:
        if next(done) == 3:
            enough.set()

    async with Queue("mail", redis_url, repeat_strategy=in_a_moment) as queue:
        await queue.schedulers.upsert("s", Schedule(pattern="full moon", custom=True))
        async with Worker("mail", handle, redis_url, repeat_strategy=in_a_moment):
            await asyncio.wait_for(enough.wait(), LIMIT_S)
    assert asked == ["full moon"] * 4


async def test_a_custom_schedule_needs_a_strategy(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = Schedule(pattern="full moon", custom=True)
    async with Queue("mail", redis_url) as queue:
        with pytest.raises(InvalidOption, match="needs a queue with a repeat_strategy"):
            await queue.schedulers.upsert("s", schedule)

    def raising(after: datetime, scheduler: Scheduler) -> datetime:
        raise ConnectionError("the calendar does not answer")

    def soon(after: datetime, scheduler: Scheduler) -> datetime:
        return after + timedelta(milliseconds=20)

    ran: list[str] = []

    async def handle(job: Job) -> None:
        ran.append(job.id)

    async with Queue("mail", redis_url, repeat_strategy=soon) as queue, asyncio.timeout(LIMIT_S):
        for unknowing in (None, raising):
            caplog.clear()
            ran.clear()
            id = await queue.schedulers.upsert("s", schedule)
            async with Worker("mail", handle, redis_url, repeat_strategy=unknowing):
                while "scheduler_waits" not in caplog.text or await queue.state(id) != "completed":
                    await asyncio.sleep(0.005)
            assert ran == [id]
            assert await queue.counts("delayed", "waiting") == {"delayed": 0, "waiting": 0}
            # As if its slot were long past; whoever knows the calendar goes on with it.
            async with await open_store(redis_url) as store:
                keys = QueueKeys("mail")
                await store.redis.delete(keys.of(id).job)
                await store.redis.zadd(keys.repeat, {"s": 1})
                assert await schedulers.advance_overdue(store.hot, keys) == []
                [again] = await schedulers.advance_overdue(store.hot, keys, strategy=soon)
                assert await schedulers.advance_overdue(store.hot, keys, strategy=soon) == []
            assert await queue.state(again) == "delayed"
            await queue.schedulers.remove("s")


async def test_a_strategy_decides_the_pause_of_a_job_that_failed_by_hand(redis_url: str) -> None:
    def in_an_hour(made: int, name: str, error: BaseException, job: Job) -> int:
        return 3600

    worker = ManualWorker("mail", redis_url, backoff_strategy=in_an_hour)
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("send", backoff=Backoff.custom("tides"))
        job = await worker.get_next_job()
        assert job is not None
        await worker.fail(job, TimeoutError())
        assert (await queue.counts("delayed"))["delayed"] == 1


async def test_a_job_that_nobody_was_given_is_not_held(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock runs out where its failure could not be stored, and others get it."""

    async def away(*_: object) -> None:
        raise StoreUnreachable("the store cannot be reached")

    worker = ManualWorker("mail", redis_url, lease=1, stalled_interval=0.2)
    async with Queue("mail", redis_url) as queue, worker, asyncio.timeout(LIMIT_S):
        await queue.add("send", expires=datetime(2020, 1, 1, tzinfo=UTC))
        with monkeypatch.context() as once:
            once.setattr(ManualWorker, "fail", away)
            with pytest.raises(StoreUnreachable):
                await worker.get_next_job()
        while await worker.get_next_job(0.1) is None:
            pass


async def test_all_jobs_that_lost_answers_had_claimed_are_given_out(redis_url: str) -> None:
    async with Queue("mail", redis_url) as queue, ManualWorker("mail", redis_url) as worker:
        ids = {job.id for job in await queue.add_many([("send", 1), ("send", 2)])}
        lossy = make_lossy(await worker._connected_source())  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(LIMIT_S):
            lossy.lose_next()
            lossy.lose_next(after=1)
            lost = [worker.get_next_job(), worker.get_next_job()]
            for answer in await asyncio.gather(*lost, return_exceptions=True):
                assert isinstance(answer, StoreUnreachable)
            found = [await worker.get_next_job() for _ in ids]
        assert {job and job.id for job in found} == ids
