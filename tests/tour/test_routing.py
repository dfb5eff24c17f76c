"""Jobs that ask for a kind of worker.

Some work can be done anywhere. Some needs a graphics card, a region, a certain machine. A job says
what it needs, a worker says what it offers, and each worker takes the oldest job that it can do,
however many others wait in front. Everything is kept in Redis in BridgeMQ's data model, so clients
in other languages can work on the same line.
"""

import asyncio

from waystation.routing import (
    BackoffRule,
    Job,
    JobOptions,
    Limit,
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
        render = await queue.dispatch(
            "render", {"scene": 7}, JobOptions(target=Target(capabilities=("gpu",)))
        )
        plain = await queue.dispatch("render", {"scene": 8})

        async def work(job: Job) -> str:
            return f"scene {job.payload['scene']} is done"

        async with Worker({"render": work}, redis_url, capabilities=["cpu"]):
            await ended(queue, plain)

        assert await queue.status(render) == "waiting"
        result = await queue.result(plain)
        assert result is not None
        assert result.data == "scene 8 is done"


async def ended(queue: Queue, id: str) -> None:
    """Wait until a job has come to its end."""
    while await queue.status(id) not in ("completed", "dead"):
        await asyncio.sleep(0.01)


async def test_what_nobody_can_do_is_not_silent(redis_url: str) -> None:
    """A job that nobody can do waits, and `coverage` says what is missing. The same is printed by
    `waystation routing coverage`."""
    async with Queue(redis_url) as queue:
        await queue.dispatch(
            "render", {}, JobOptions(target=Target(capabilities=("gpu", "cuda"), mode="all"))
        )

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
        id = await queue.dispatch("cut", {}, JobOptions(target=target))

        async def cut(job: Job) -> str:
            return "cut"

        async with Worker({"cut": cut}, redis_url, region="eu", capabilities=["video:*"]):
            await ended(queue, id)

        assert await queue.status(id) == "completed"


async def test_failures_may_ask_for_another_worker(redis_url: str) -> None:
    """A failed job is tried again after a pause. Errors named in `skip_on` are final; those named
    in `reroute_on` must be tried by another worker."""
    async with Queue(redis_url) as queue:
        retry = Retry(
            attempts=3,
            backoff=BackoffRule(type="fixed", delay=10),
            skip_on=("ValueError",),
            reroute_on=("MemoryError",),
        )
        id = await queue.dispatch("sum", {}, JobOptions(retry=retry))
        tried: list[str] = []

        def small(job: Job) -> None:
            tried.append("small")
            raise MemoryError("this is too big for me")

        def large(job: Job) -> str:
            tried.append("large")
            return "fits"

        async with Worker({"sum": small}, redis_url, server_id="small"):
            while not tried:
                await asyncio.sleep(0.01)
            async with Worker({"sum": large}, redis_url, server_id="large"):
                await ended(queue, id)

        assert tried == ["small", "large"]


async def test_what_fails_for_good_is_kept_with_its_reason(redis_url: str) -> None:
    """The dead letter list says why, for as long as it holds the job, and a job in it can be tried
    again."""
    async with Queue(redis_url) as queue:
        id = await queue.dispatch("send", {}, JobOptions(retry=Retry(attempts=1)))

        def refuse(job: Job) -> None:
            raise LookupError("no such address")

        async with Worker({"send": refuse}, redis_url):
            await ended(queue, id)

        dead = await queue.dead_letters()
        assert [letter.error.message async for letter in dead] == ["no such address"]
        assert await dead.requeue_all(error="LookupError") == 1
        assert await queue.status(id) == "waiting"


async def test_later_again_and_after_others(redis_url: str) -> None:
    """A job may wait for an instant, for a schedule in a time zone, or for other jobs."""
    async with Queue(redis_url) as queue:
        later = await queue.dispatch("mail", {}, JobOptions(schedule=Schedule(delay=60_000)))
        nightly = await queue.dispatch(
            "report", {}, JobOptions(schedule=Schedule(cron="30 2 * * *", timezone="Europe/Vienna"))
        )
        after = await queue.dispatch("mail", {}, JobOptions(depends_on=(later,)))

        assert await queue.status(later) == "delayed"
        assert await queue.status(nightly) == "cron"
        assert await queue.status(after) == "delayed"
        assert (await queue.stats()).held == 1


async def test_limits_hold_over_all_workers(redis_url: str) -> None:
    """How many jobs of a type run at once, and how many start in a minute, is decided where jobs
    are handed out, so it holds however many workers there are."""
    async with Queue(redis_url) as queue:
        await queue.limit("mail", Limit(max_concurrent=1))
        ids = [await queue.dispatch("mail") for _ in range(3)]
        running = most = 0

        async def send(job: Job) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

        async with Worker({"mail": send}, redis_url), Worker({"mail": send}, redis_url):
            for id in ids:
                await ended(queue, id)

        assert most == 1
