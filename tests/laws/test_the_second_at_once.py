"""What moves, retries, sweeps or deletes, run twice at once: the outcome is that of one.

Once with both at full speed, and once for each command of the first: it is frozen there until the
second has ended. Operations with a test of their own: draws (waitingroom/test_lottery.py), rotation
of keys (waitingroom/http/test_signing.py), planned events (waitingroom/test_schedule.py), admission
and claims (waitingroom/http/test_attacks_on_the_line.py), cron (routing/test_schedule.py),
schedulers (bullmq/test_schedulers.py), the reaper and the scan (files/test_reaper.py,
files/test_producer.py).
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import pytest
from redis import Redis
from redis import asyncio as redis_asyncio
from redis.asyncio.client import Pipeline

from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.core.store.connection.pipe import Pipe

MANY = 7
IDS = [f"j{number}" for number in range(MANY)]
Opened: TypeAlias = AsyncGenerator[Any]
_first: ContextVar[bool] = ContextVar("first", default=False)


def on(method: str, *given: Any, **more: Any) -> Callable[[Any], Awaitable[Any]]:
    """A call of a queue's method."""
    return lambda queue: attrgetter(method)(queue)(*given, **more)


class Operation(NamedTuple):
    """Something that two may do at the same moment."""

    opened: Callable[[str], Opened]
    """A queue to do it to, in the state that it is about."""
    act: Callable[[Any], Awaitable[Any]]
    left: dict[str, int]
    """How many there are in each state afterwards."""
    counts: bool = True
    """Whether it returns how many it has moved, each once."""


async def failed(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id)) for id in IDS])
        assert await queue.cancel(*IDS) == MANY
        yield queue


async def delayed(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id, delay=3600)) for id in IDS])
        yield queue


async def waiting(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id)) for id in IDS])
        yield queue


async def orphaned(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id)) for id in IDS])
        with Redis.from_url(url) as client:
            client.delete("bull:mail:wait")
        yield queue


async def stray(url: str) -> Opened:
    with TemporaryDirectory() as blobs:
        kept = bullmq.PayloadOptions(blobs=blobs, above=0)
        async with bullmq.Queue("mail", url, payloads=kept) as queue:
            for number in range(MANY):
                touch(Path(blobs, "mail", f"{number:032x}"))
            yield queue


def touch(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()


async def routed(url: str) -> Opened:
    async with routing.Queue(url) as queue:
        for id in IDS:
            await queue.add("a", job_id=id)
        yield queue


async def routed_dead(url: str) -> Opened:
    async def fail(job: Any) -> None:
        raise ValueError("no")

    async with routing.Queue(url) as queue:
        for id in IDS:
            await queue.add("a", job_id=id, retry=routing.Retry(attempts=1))
        async with routing.Worker(fail, url), asyncio.timeout(LIMIT_S):
            while await queue.dead_letters.count() < MANY:
                await asyncio.sleep(0.01)
        yield queue


async def files_dead(url: str) -> Opened:
    def fail(job: Any) -> None:
        raise ValueError("no")

    with TemporaryDirectory() as inbox:
        for id in IDS:
            touch(Path(inbox, id))
        async with files.Queue(url) as queue:
            await queue.add_many([str(Path(inbox, id)) for id in IDS])
            options = files.WorkerOptions(max_retries=0, poll=0.05)
            async with files.Worker(fail, url, options=options), asyncio.timeout(LIMIT_S):
                while await queue.dead_letters.count() < MANY:
                    await asyncio.sleep(0.01)
            yield queue


ALL, NONE = MANY, 0
OPERATIONS = {
    "bullmq retry": Operation(failed, on("retry", *IDS), {"waiting": ALL, "failed": NONE}),
    "bullmq retry_all": Operation(failed, on("retry_all"), {"waiting": ALL, "failed": NONE}),
    "bullmq purge": Operation(failed, on("dead_letters.purge"), {"failed": NONE}),
    "bullmq clean": Operation(
        failed, on("clean", 0, state="failed"), {"failed": NONE}, counts=False
    ),
    "bullmq promote_all": Operation(delayed, on("promote_all"), {"waiting": ALL, "delayed": NONE}),
    "bullmq drain": Operation(waiting, on("drain"), {"waiting": NONE}),
    "bullmq cancel": Operation(waiting, on("cancel", *IDS), {"waiting": NONE, "failed": ALL}),
    "bullmq remove_orphans": Operation(orphaned, on("remove_orphans"), {"waiting": NONE}),
    "bullmq sweep_blobs": Operation(
        stray, on("sweep_blobs", older=0), {"waiting": NONE}, counts=False
    ),
    "bullmq obliterate": Operation(
        waiting, on("obliterate", force=True), {"waiting": NONE}, counts=False
    ),
    "routing cancel": Operation(routed, on("cancel", *IDS), {"waiting": NONE}),
    "routing retry_all": Operation(
        routed_dead, on("dead_letters.retry_all"), {"waiting": ALL, "dead": NONE}
    ),
    "routing retry": Operation(routed_dead, on("retry", *IDS), {"waiting": ALL, "dead": NONE}),
    "routing purge": Operation(routed_dead, on("dead_letters.purge"), {"dead": NONE}),
    "files retry_all": Operation(
        files_dead, on("dead_letters.retry_all"), {"waiting": ALL, "failed": NONE}
    ),
    "files purge": Operation(files_dead, on("dead_letters.purge"), {"failed": NONE}),
}


class Freezer:
    """Holds the first before its nth command until the second has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int | None) -> None:
        self.was_frozen = False
        self._at, self._seen, self._go = at, itertools.count(), asyncio.Event()
        self._began = False
        self.begun = asyncio.Event()
        for kind, name in (
            (Pipe, "execute_command"), (Pipe, "in_a_row"), (Pipeline, "execute"),
            (redis_asyncio.Redis, "execute_command"),
        ):  # fmt: skip
            monkeypatch.setattr(kind, name, self._passing(getattr(kind, name)))

    def _passing(self, step: Callable[..., Any]) -> Callable[..., Any]:
        async def passed(*given: Any, **more: Any) -> Any:
            if _first.get() and next(self._seen) == self._at:
                self.was_frozen = True
                self.begun.set()
                await self._go.wait()
            return await step(*given, **more)

        return passed

    async def run(self, first: Awaitable[Any], second: Awaitable[Any]) -> list[Any]:
        """Both, and what they returned."""

        async def begin() -> Any:
            _first.set(True)
            try:
                return await first
            finally:
                self.begun.set()

        task = asyncio.create_task(begin())
        if self._at is not None:
            await self.begun.wait()
        answer = await second
        self._go.set()
        return [await task, answer]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_the_outcome_of_two_is_that_of_one(
    name: str, redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = OPERATIONS[name]
    for at in (None, *range(50)):
        await redis.flushdb()
        async with asyncio.timeout(2 * LIMIT_S), aclosing(asked.opened(redis_url)) as opened:
            queue = await anext(opened)
            with monkeypatch.context() as once:
                freezer = Freezer(once, at)
                answers = await freezer.run(asked.act(queue), asked.act(queue))
            counts = await queue.counts()
            assert {state: counts[state] for state in asked.left} == asked.left, (at, answers)
            if asked.counts:
                moved = [each if isinstance(each, int) else len(each) for each in answers]
                assert sum(moved) == MANY, (at, answers)
        if at is not None and not freezer.was_frozen:
            assert at, "nothing was frozen"
            return
    raise AssertionError("it has more commands than were tried")
