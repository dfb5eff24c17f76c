"""A job ends as its handler did, whatever its providers do about it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.patience import LIMIT_S
from tests.tasks.conftest import Finish
from waystation.bullmq import Job, JobRateLimited, SyncJob, Unrecoverable
from waystation.tasks import Tasks, depends

HOUR = 3600


# How handlers end


async def returns(job: Job) -> str:
    return "done"


async def fails(job: Job) -> None:
    raise ValueError("card refused")


async def fails_for_good(job: Job) -> None:
    raise Unrecoverable("no such card")


async def exits(job: Job) -> None:
    raise SystemExit(3)


async def raises_a_cancellation(job: Job) -> None:
    raise asyncio.CancelledError


async def sleeps(job: Job) -> None:
    await job.sleep(HOUR)


async def waits_for_a_signal(job: Job) -> None:
    await job.wait_for("approved", timeout=HOUR)


async def waits_for_a_child(job: Job) -> None:
    await job.run_child("part", {}, queue="parts")


async def takes_too_long(job: Job) -> None:
    await asyncio.Event().wait()


async def is_cancelled(job: Job) -> None:
    await job.cancel("not wanted")
    await asyncio.Event().wait()


async def is_limited(job: Job) -> None:
    await job.rate_limit(HOUR)
    raise JobRateLimited


ENDS: list[Callable[[Job], Any]] = [
    returns,
    fails,
    fails_for_good,
    exits,
    raises_a_cancellation,
    sleeps,
    waits_for_a_signal,
    waits_for_a_child,
    takes_too_long,
    is_cancelled,
    is_limited,
]
FAILURES = {"fails", "fails_for_good", "raises_a_cancellation", "fails_in_a_thread"}
"""What an error of a provider may take the place of; a time limit and a cancel are the worker's."""
IN_A_THREAD = ["fails_in_a_thread", "sleeps_in_a_thread"]


# What providers do about it


def catching(kinds: type[BaseException], then: Callable[[], None]) -> list[Callable[[], Any]]:
    async def on_the_loop() -> AsyncIterator[str]:
        try:
            yield "session"
        except kinds:
            then()

    def plain() -> Iterator[str]:
        try:
            yield "session"
        except kinds:
            then()

    return [on_the_loop, plain]


def nothing() -> None: ...


def another() -> None:
    raise LookupError("no session")


def again() -> None:
    raise


PROVIDERS = {
    "swallows errors": catching(Exception, nothing),
    "swallows everything": catching(BaseException, nothing),
    "raises it again": catching(BaseException, again),
    "raises another for errors": catching(Exception, another),
    "raises another for everything": catching(BaseException, another),
}


class Ended(NamedTuple):
    state: str
    reason: str | None
    made: int
    result: Any


ANOTHER = Ended("delayed", "no session", 1, None)
"""Tried again, because a provider failed."""


async def add_all(tasks: Tasks, provider: Callable[[], Any] | None, mark: str) -> dict[str, Any]:
    """A job for every way to end, with what is provided."""
    given: Any = "none" if provider is None else depends(provider, scope="job")
    options: dict[str, Any] = {"retries": 1, "backoff": HOUR}
    jobs: dict[str, Any] = {}

    def on_the_loop(end: Callable[[Job], Any]) -> Any:
        async def run(job: Job = depends(Job), session: str = given) -> Any:
            return await end(job)

        return run

    def plain(end: str) -> Any:
        def run(job: SyncJob = depends(SyncJob), session: str = given) -> None:
            if end.startswith("sleeps"):
                job.sleep(HOUR)
            raise ValueError("card refused")

        return run

    runs = {end.__name__: on_the_loop(end) for end in ENDS}
    runs |= {end: plain(end) for end in IN_A_THREAD}
    for end, run in runs.items():
        # Nothing else of its queue begins when one is limited.
        queue = f"limited {mark}" if end == "is_limited" else "default"
        limit = 0.05 if end == "takes_too_long" else None
        made: Any = tasks.task(name=f"{end} {mark}", queue=queue, timeout=limit, **options)
        task = made(run)
        jobs[end] = (await task.add()).job
    return jobs


async def ended(job: Job) -> Ended:
    """How the attempt at a job has ended, as soon as it has."""
    async with asyncio.timeout(LIMIT_S):
        while not job.attempts_started or await job.state() == "active":
            await asyncio.sleep(0.01)
            await job.refresh()
    state = await job.state()
    await job.refresh()
    return Ended(state, job.failed_reason, job.attempts_made, job.result)


@pytest.mark.parametrize("does", PROVIDERS)
async def test_a_job_ends_as_its_handler_did_whatever_a_provider_does(
    tasks: Tasks, does: str
) -> None:
    alone = await add_all(tasks, None, "alone")
    provided = [
        await add_all(tasks, each, f"with {number}") for number, each in enumerate(PROVIDERS[does])
    ]
    queues = sorted({task.queue for task in tasks})
    async with asyncio.TaskGroup() as group:
        workers = [tasks.worker(each, renew=0.1, concurrency=50) for each in queues]
        for each in workers:
            group.create_task(each.run(signals=False))
        expected = {end: await ended(job) for end, job in alone.items()}
        found = [{end: await ended(job) for end, job in jobs.items()} for jobs in provided]
        for each in workers:
            each.stop()

    if does.startswith("raises another"):
        caught = FAILURES if does.endswith("everything") else FAILURES - {"raises_a_cancellation"}
        expected |= dict.fromkeys(caught, ANOTHER)
    for each in found:
        assert {end: each[end] for end in each if each[end] != expected[end]} == {}


@pytest.mark.parametrize("is_plain", [True, False])
async def test_every_provider_learns_how_the_handler_ended(
    tasks: Tasks, finish: Finish, is_plain: bool
) -> None:
    seen: list[str] = []

    async def outer() -> AsyncIterator[str]:
        try:
            yield "outer"
        except ValueError as error:
            seen.append(f"outer: {error}")

    def plain(outer: str = depends(outer, scope="job")) -> Iterator[str]:
        try:
            yield "inner"
        except ValueError as error:
            seen.append(f"inner: {error}")

    async def on_the_loop(outer: str = depends(outer, scope="job")) -> AsyncIterator[str]:
        try:
            yield "inner"
        except ValueError as error:
            seen.append(f"inner: {error}")

    inner: Any = plain if is_plain else on_the_loop

    @tasks.task(retries=0)
    async def pay(inner: str = depends(inner, scope="job")) -> None:
        raise ValueError("card refused")

    job = (await pay.add()).job
    await finish()

    assert seen == ["inner: card refused", "outer: card refused"]
    assert await job.state() == "failed"


async def test_a_provider_that_cannot_be_made_fails_the_job_whoever_catches_it(
    tasks: Tasks, finish: Finish
) -> None:
    def session() -> Iterator[str]:
        with contextlib.suppress(LookupError):
            yield "session"

    async def cursor(session: str = depends(session, scope="job")) -> AsyncIterator[str]:
        raise LookupError("no cursor")
        yield ""

    @tasks.task(retries=0)
    async def pay(cursor: str = depends(cursor, scope="job")) -> None: ...

    job = (await pay.add()).job
    await finish()
    await job.refresh()

    assert (await job.state(), job.failed_reason) == ("failed", "no cursor")


async def test_a_time_limit_of_a_provider_is_what_the_job_fails_with(
    tasks: Tasks, finish: Finish
) -> None:
    async def session() -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(0.02):
                yield "session"
        except TimeoutError:
            raise LookupError("no session in time") from None

    @tasks.task(retries=0)
    async def pay(session: str = depends(session, scope="job")) -> None:
        await asyncio.Event().wait()

    job = (await pay.add()).job
    await finish()
    await job.refresh()

    assert (await job.state(), job.failed_reason) == ("failed", "no session in time")
