"""Parameters that the worker provides."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from tests.tasks.conftest import Finish
from waystation.bullmq import Job, Store, SyncJob
from waystation.errors import InvalidInput, InvalidOption
from waystation.tasks import Tasks, depends


class Mailer:
    def __init__(self, name: str) -> None:
        self.name = name


async def test_a_dependency_lives_as_long_as_the_workers(tasks: Tasks) -> None:
    seen: list[str] = []

    async def mailer() -> AsyncIterator[Mailer]:
        seen.append("open")
        # A scope of time that begins in one task must end in it.
        async with asyncio.timeout(None):
            yield Mailer("real")
        seen.append("close")

    @tasks.task(queue="a")
    async def first(mailer: Mailer = depends(mailer)) -> str:
        return mailer.name

    @tasks.task(queue="b")
    def second(to: str, mailer: Mailer = depends(mailer)) -> str:
        return f"{mailer.name} {to}"

    async with tasks.worker("a") as worker, tasks.worker("b"):
        assert seen == ["open"], "made when a worker starts, not with its first job"
        assert await (await first.add()).result(LIMIT_S) == "real"
        assert await (await second.add(to="ada")).result(LIMIT_S) == "real ada"
        assert worker.is_running
        assert seen == ["open"]
    assert seen == ["open", "close"]


async def test_a_dependency_of_one_job_learns_how_it_ended(tasks: Tasks, finish: Finish) -> None:
    seen: list[str] = []

    def settings() -> dict[str, str]:
        seen.append("settings")
        return {"name": "db"}

    async def session(
        job: Job = depends(Job), settings: dict[str, str] = depends(settings)
    ) -> AsyncIterator[str]:
        try:
            yield f"{settings['name']}:{job.name}"
        except ValueError:
            seen.append("rolled back")
            raise
        else:
            seen.append("committed")

    def cursor(session: str = depends(session, scope="job")) -> Iterator[str]:
        yield f"cursor of {session}"

    @tasks.task(retries=0)
    async def good(
        session: str = depends(session, scope="job"), cursor: str = depends(cursor, scope="job")
    ) -> str:
        return f"{session} {cursor}"

    @tasks.task(retries=0)
    def bad(session: str = depends(session, scope="job")) -> None:
        raise ValueError(session)

    added = await good.add()
    await finish()
    await bad.add()
    await finish()

    assert await added.result() == "db:good cursor of db:good"
    assert seen == ["settings", "committed", "settings", "rolled back"]


async def test_the_job_and_the_store_are_provided(tasks: Tasks, finish: Finish) -> None:
    async def server(store: Store = depends(Store)) -> str:
        return (await store.ask("PING")).decode()

    @tasks.task()
    async def first(job: Job = depends(Job), pong: str = depends(server)) -> str:
        await job.update_progress(50)
        return f"{job.id} {pong}"

    @tasks.task()
    def second(job: SyncJob = depends(SyncJob), store: Store = depends(Store)) -> str:
        job.log("hello")
        return store.options.client_name

    jobs: list[Any] = [await first.add(), await second.add()]
    await finish()

    assert [await each.result() for each in jobs] == ["1 PONG", "waystation"]
    assert (await jobs[1].job.logs()).lines == ["hello"]


async def test_a_dependency_can_be_overridden_in_a_test(tasks: Tasks, finish: Finish) -> None:
    def mailer() -> Mailer:
        raise AssertionError("not in a test")

    @tasks.task()
    async def send(mailer: Mailer = depends(mailer)) -> str:
        return mailer.name

    added = await send.add()
    with tasks.override(mailer, lambda: Mailer("fake")):
        await finish()
    assert await added.result() == "fake"
    with pytest.raises(InvalidInput, match="without a worker, which provides mailer"):
        await send()
    assert await send(mailer=Mailer("mine")) == "mine"


async def test_a_worker_whose_dependency_cannot_be_made_does_not_start(tasks: Tasks) -> None:
    def broken() -> Mailer:
        raise RuntimeError("no server")

    @tasks.task()
    async def send(mailer: Mailer = depends(broken)) -> None: ...

    with pytest.raises(RuntimeError, match="no server"):
        await tasks.worker("default").start()


async def test_nobody_passes_what_the_worker_provides(tasks: Tasks) -> None:
    def mailer() -> Mailer:
        return Mailer("real")

    @tasks.task()
    async def send(mailer: Mailer = depends(mailer)) -> None: ...

    with pytest.raises(InvalidInput, match="the worker provides mailer, do not pass it"):
        await send.add(mailer=Mailer("mine"))


def test_dependencies_that_cannot_be_provided_are_refused() -> None:
    tasks = Tasks()

    async def of_a_job(job: Job = depends(Job)) -> str:
        return job.id

    def in_a_circle(inner: Any = None) -> None: ...

    in_a_circle.__defaults__ = (depends(in_a_circle),)

    async def with_sync_job(job: SyncJob = depends(SyncJob)) -> None: ...
    def with_job(job: Job = depends(Job)) -> None: ...
    async def mixed(a: str = depends(of_a_job)) -> None: ...
    async def circle(a: Any = depends(in_a_circle)) -> None: ...
    def process(a: Any = depends(of_a_job, scope="job")) -> None: ...

    refused: list[tuple[Any, str]] = [
        (with_sync_job, "must depend on Job"),
        (with_job, "must depend on SyncJob"),
        (mixed, "lives as long as the worker"),
        (circle, "depends on itself"),
    ]
    for function, sentence in refused:
        with pytest.raises(InvalidOption, match=sentence):
            tasks.task()(function)
    with pytest.raises(InvalidOption, match="without dependencies"):
        tasks.task(process=True)(process)
    with pytest.raises(InvalidOption, match="needs a function"):
        depends("mailer")  # type: ignore[call-overload] # pyright: ignore


async def test_a_provider_that_fails_later_ends_its_worker(tasks: Tasks) -> None:
    breaks = asyncio.Event()

    async def link() -> AsyncIterator[str]:
        async def watch() -> None:
            await breaks.wait()
            raise ConnectionError("the link broke")

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            yield "link"

    def late(link: str = depends(link)) -> str:
        return link

    @tasks.task()
    async def use(link: str = depends(link), late: str = depends(late, scope="job")) -> str:
        return late

    worker = tasks.worker("default")
    async with asyncio.timeout(LIMIT_S):
        running = asyncio.create_task(worker.run(signals=False))
        assert await (await use.add()).result() == "link"
        breaks.set()
        with pytest.raises(BaseExceptionGroup) as ended:
            await running
    assert "the link broke" in str(ended.value.exceptions[0])


async def test_a_provider_that_fails_while_another_is_made_ends_its_worker(tasks: Tasks) -> None:
    asked = asyncio.Event()

    async def link() -> AsyncIterator[str]:
        async def watch() -> None:
            await asked.wait()
            raise ConnectionError("the link broke")

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            yield "link"

    async def slow() -> str:
        asked.set()
        await asyncio.Event().wait()
        return "slow"

    @tasks.task()
    async def use(link: str = depends(link), slow: str = depends(slow)) -> None: ...

    async with asyncio.timeout(LIMIT_S) as limit:
        with pytest.raises(BaseExceptionGroup) as ended:
            await tasks.worker("default").start()
    assert "the link broke" in str(ended.value.exceptions[0])
    assert not limit.expired()
