"""Jobs that ask for a kind of worker.

Some work can be done anywhere. Some needs a graphics card, a region, a certain machine. A job
declares what it needs, a worker what it offers, and each worker takes the oldest job that it can
do, however many others wait in front. Everything is kept in Redis in BridgeMQ's data model, so
clients in other languages can work on the same queue.
"""

import asyncio
from datetime import timedelta

import pytest

from waystation.errors import JobFailed
from waystation.routing import (
    BackoffRule,
    Job,
    Limit,
    NewJob,
    Queue,
    Retry,
    Schedule,
    Target,
    Worker,
)


async def test_a_job_goes_to_a_worker_that_can_do_it(redis_url: str) -> None:
    """The first job needs a graphics card, the second does not. The worker here has none, so it
    takes the second at once and leaves the first for somebody else."""
    async with Queue(redis_url) as queue:
        first = await queue.add("render", {"scene": 7}, target=Target(capabilities=("gpu",)))
        second = await queue.add("render", {"scene": 8})

        async def render(job: Job) -> str:
            return f"scene {job.data['scene']} is done"

        async with Worker({"render": render}, redis_url, capabilities=["cpu"]):
            assert await queue.wait(second.id, timeout=10) == "scene 8 is done"

        assert await queue.state(first.id) == "waiting"


async def test_what_nobody_can_do_is_not_silent(redis_url: str) -> None:
    """A job that nobody can do waits, and `coverage` says what is missing. The same is printed by
    `waystation routing coverage`."""
    async with Queue(redis_url) as queue:
        await queue.add("render", {}, target=Target(capabilities=("gpu", "cuda"), mode="all"))

        async with Worker({"render": print}, redis_url, capabilities=["gpu"]):
            (row,) = await queue.coverage()

        assert not row.served
        assert row.missing == ("capability cuda",)


async def test_how_needs_are_met(redis_url: str) -> None:
    """A named server decides alone. Otherwise stack, capabilities and region must each hold: in
    the mode `any` one value is enough, in the mode `all` every one is needed, and what is left out
    always holds. With the match `category-any` one of those that are given is enough. A worker may
    offer whole families of capabilities, as in `video:*`."""
    async with Queue(redis_url) as queue:
        target = Target(capabilities=("video:encode",), region=("eu", "us"))
        job = await queue.add("cut", {}, target=target)

        async def cut(job: Job) -> str:
            return "cut"

        async with Worker({"cut": cut}, redis_url, region="eu", capabilities=["video:*"]):
            assert await queue.wait(job.id, timeout=10) == "cut"


async def test_failures_may_ask_for_another_worker(redis_url: str) -> None:
    """A failed job is retried after a delay. Errors named in `skip_on` are final; after those named
    in `reroute_on` another worker must try."""
    async with Queue(redis_url) as queue:
        retry = Retry(
            attempts=3,
            backoff=BackoffRule(type="fixed", delay=0.01),
            skip_on=("ValueError",),
            reroute_on=("MemoryError",),
        )
        job = await queue.add("sum", {}, retry=retry)
        tried: list[str] = []

        def small(job: Job) -> None:
            tried.append("small")
            raise MemoryError("this is too big for me")

        def large(job: Job) -> str:
            tried.append("large")
            return "fits"

        async with Worker({"sum": small}, redis_url, server="small"):
            while not tried:
                await asyncio.sleep(0.01)
            async with Worker({"sum": large}, redis_url, server="large"):
                assert await queue.wait(job.id, timeout=10) == "fits"

        assert tried == ["small", "large"]


async def test_what_fails_for_good_is_a_dead_letter(redis_url: str) -> None:
    """A job that has no attempts left becomes a dead letter with its error, and can be retried."""
    async with Queue(redis_url) as queue:
        job = await queue.add("send", {}, retry=Retry(attempts=1))

        def refuse(job: Job) -> None:
            raise LookupError("no such address")

        async with Worker({"send": refuse}, redis_url):
            with pytest.raises(JobFailed, match="LookupError: no such address"):
                await queue.wait(job.id, timeout=10)

        (letter,) = await queue.dead_letters.list()
        assert letter.error.message == "no such address"
        assert await queue.dead_letters.retry_all(error="LookupError") == 1
        assert await queue.state(job.id) == "waiting"


async def test_later_again_and_after_others(redis_url: str) -> None:
    """A job may wait for an instant, for a schedule in a time zone, or for other jobs. Durations
    are a `timedelta` or seconds."""
    async with Queue(redis_url) as queue:
        later = await queue.add("mail", schedule=Schedule(delay=timedelta(minutes=1)))
        cron = Schedule(cron="30 2 * * *", timezone="Europe/Vienna")
        nightly = await queue.add("report", schedule=cron)
        after = await queue.add("mail", depends_on=[later.id])

        assert await queue.state(later.id) == "delayed"
        assert await queue.state(nightly.id) == "cron"
        assert await queue.state(after.id) == "held"
        assert [each.id for each in await queue.schedules.list()] == [nightly.id]


async def test_limits_hold_over_all_workers(redis_url: str) -> None:
    """How many jobs of a type run at once, and how many start in a minute, is decided where jobs
    are handed out, so it holds however many workers there are."""
    async with Queue(redis_url) as queue:
        await queue.limits.set("mail", Limit(max_concurrent=1))
        jobs = await queue.add_many([NewJob("mail")] * 3)
        running = most = 0

        async def send(job: Job) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

        async with Worker({"mail": send}, redis_url), Worker({"mail": send}, redis_url):
            for job in jobs:
                await queue.wait(job.id, timeout=10)

        assert most == 1
