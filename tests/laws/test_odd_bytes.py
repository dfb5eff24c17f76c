"""Whatever bytes another program has left anywhere in the store, the next good job runs."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from tests.support.odd_bytes import with_odd_bytes
from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.bullmq import Schedule
from waystation.core.errors import ScriptFailed

pytestmark = pytest.mark.slow

Step: TypeAlias = Callable[[str, Path], Awaitable[Any]]


class Product(NamedTuple):
    """What is in a store, and the work that must be done in it."""

    fill: Step
    work: Step
    counters: set[bytes]
    """Keys without which nothing can be added: the error of whoever adds names it."""


async def works(job: Any) -> str:
    return "done"


async def fails(job: Any) -> None:
    raise RuntimeError("no")


async def fill_bullmq(url: str, _: Path) -> None:
    async with bullmq.Queue("mail", url) as queue:
        async with bullmq.Worker("mail", fails, url, grace=0):
            failing = await queue.add("send", attempts=1)
            with pytest.raises(bullmq.JobFailed):
                await queue.wait(failing.id, LIMIT_S)
        await queue.add("send", {"n": 1})
        await queue.add("send", priority=3)
        await queue.add("send", delay=0.05)
        await queue.add("send", delay=3600)
        await queue.schedulers.upsert("tick", Schedule(every=60))


async def work_bullmq(url: str, _: Path) -> None:
    async with bullmq.Queue("mail", url) as queue:
        job = await queue.add("send")
        async with bullmq.Worker("mail", works, url, grace=0):
            assert await queue.wait(job.id, LIMIT_S) == "done"


async def fill_routing(url: str, _: Path) -> None:
    async with routing.Queue(url) as queue:
        await queue.limits.set("send", routing.Limit(max_concurrent=3))
        async with routing.Worker({"send": fails}, url, server="one", grace=0):
            job = await queue.add("send", retry=routing.Retry(attempts=1))
            async with asyncio.timeout(LIMIT_S):
                while await queue.state(job.id) != "dead":
                    await asyncio.sleep(0.01)
        for type in ("send", "other"):
            await queue.add(type, {"n": 1})
        await queue.add("send", schedule=routing.Schedule(delay=3600))


async def work_routing(url: str, _: Path) -> None:
    async with routing.Queue(url) as queue:
        job = await queue.add("send")
        async with routing.Worker({"send": works}, url, server="two", grace=0):
            assert await queue.wait(job.id, LIMIT_S) == "done"


async def fill_files(url: str, home: Path) -> None:
    async with files.Queue(url) as queue:
        for name in "abc":
            (home / name).write_text(name)
            await queue.add(home / name)


async def work_files(url: str, home: Path) -> None:
    file = home / f"{uuid.uuid4()}.txt"
    file.write_text("good")
    async with files.Queue(url) as queue:
        job = await queue.add(file)
        assert job is not None
        async with files.Worker(works, url, grace=0):
            await queue.wait(job.id, LIMIT_S)


PRODUCTS = {
    "bullmq": Product(fill_bullmq, work_bullmq, {b"bull:mail:id"}),
    "routing": Product(fill_routing, work_routing, {b"bridge:index:serial"}),
    "files": Product(fill_files, work_files, set()),
}


@pytest.mark.parametrize("name", PRODUCTS)
async def test_the_next_good_job_runs(name: str, redis_url: str, tmp_path: Path) -> None:
    product = PRODUCTS[name]
    await product.fill(redis_url, tmp_path)
    stopped: list[str] = []
    async for command in with_odd_bytes(redis_url):
        try:
            await product.work(redis_url, tmp_path)
        except ScriptFailed as refused:
            if command[1] not in product.counters:
                stopped.append(f"{command}: {refused}")
        except Exception as error:
            stopped.append(f"{command}: {error!r}")
    assert not stopped, "\n".join(stopped)
