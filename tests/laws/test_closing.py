"""Whoever waits for something of a queue ends with an error when the queue is closed."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.listening import blocked_on
from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from waystation import bullmq, files, routing, sync
from waystation.core.errors import StoreUnreachable
from waystation.core.runtime.handlers.pools import Threads

Waiting = Callable[[Any, str], Coroutine[Any, Any, None]]


async def wait(queue: Any, job_id: str) -> None:
    await queue.wait(job_id)


async def follow(queue: Any, job_id: str) -> None:
    async for _ in queue.events(after="0-0"):
        pass


async def read(queue: Any, job_id: str) -> None:
    async for _ in queue.stream(job_id):
        pass


async def nothing(job: Any) -> None: ...


MAKERS: dict[str, Callable[[str], Any]] = {
    "bullmq": lambda url: bullmq.Queue("mail", url),
    "routing": lambda url: routing.Queue(url),
    "files": lambda url: files.Queue(url),
}
WAYS: list[tuple[str, Waiting]] = [
    *((product, way) for product in MAKERS for way in (wait, follow)),
    ("bullmq", read),
]


def make_file(folder: Path, number: int) -> Path:
    path = folder / f"{number}.txt"
    path.touch()
    return path


async def test_whoever_waits_at_a_queue_that_is_closed_ends(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    queues = [MAKERS[product](redis_url) for product, _ in WAYS]
    async with asyncio.timeout(LIMIT_S):
        # A file is a job once, so each has one of its own.
        jobs = [
            await queue.add(make_file(tmp_path, number) if product == "files" else "send")
            for number, ((product, _), queue) in enumerate(zip(WAYS, queues, strict=True))
        ]
        waiting: list[asyncio.Task[None]] = [
            asyncio.create_task(way(queue, job.id), name=f"{product}.{way.__name__}")
            for (product, way), queue, job in zip(WAYS, queues, jobs, strict=True)
        ]
        await blocked_on(redis, len(WAYS))
        for queue in queues:
            await queue.close()
        _, hanging = await asyncio.wait(waiting, timeout=LIMIT_S / 2)
    for each in hanging:
        each.cancel()
    assert not {each.get_name() for each in hanging}
    for each in waiting:
        # Events come to an end; what was promised cannot come any more.
        if each.get_name().endswith(".follow"):
            assert each.exception() is None
        else:
            with pytest.raises(StoreUnreachable, match="closed"):
                await each


async def test_whoever_waits_without_a_loop_ends(redis: Redis, redis_url: str) -> None:
    queue = sync.Queue("mail", redis_url)
    job = await asyncio.to_thread(queue.add, "send")
    # In threads that no process waits for, should they not end.
    threads, events, parts = Threads(name="waiting"), queue.events(), queue.stream(job.id)
    ways = (lambda: queue.wait(job.id), lambda: list(events), lambda: list(parts))
    waiting = [asyncio.create_task(threads.run(way)) for way in ways]
    await blocked_on(redis, len(waiting))
    await asyncio.to_thread(queue.close)
    async with asyncio.timeout(LIMIT_S):
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ended] == [StoreUnreachable, list, StoreUnreachable]


async def test_a_worker_that_is_closed_waits_for_no_store() -> None:
    worker = bullmq.Worker("mail", nothing, f"redis://127.0.0.1:{free_port()}")
    starting = asyncio.create_task(worker.start(wait_s=600))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(LIMIT_S):
        await worker.close()
        with pytest.raises(StoreUnreachable, match="this Worker has been closed"):
            await starting


async def test_a_listener_that_was_closed_does_not_begin(redis_url: str) -> None:
    events = bullmq.QueueEvents("mail", redis_url)
    await events.close()
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(StoreUnreachable, match="has been closed"):
            await anext(aiter(events))


OPENED: dict[str, Callable[[str], Any]] = {
    "bullmq.Worker": lambda url: bullmq.Worker("mail", nothing, url),
    "bullmq.ManualWorker": lambda url: bullmq.ManualWorker("mail", url),
    "bullmq.QueueEvents": lambda url: bullmq.QueueEvents("mail", url),
    "routing.Worker": lambda url: routing.Worker({"send": nothing}, url),
    "files.Worker": lambda url: files.Worker(nothing, url),
}


async def named(redis: Redis) -> set[str]:
    """The connections that belong to us."""
    return {each["id"] for each in await redis.client_list() if each["name"]}


async def nothing_is_left(
    redis: Redis, tasks: set[asyncio.Task[Any]], connections: set[str]
) -> None:
    """Nothing but what was there before, which another test may have left when it failed."""
    async with asyncio.timeout(LIMIT_S):
        while await named(redis) - connections:
            await asyncio.sleep(0.01)
        # It is told to end, and nobody waits for it.
        while "lease-keeper" in {each.name for each in threading.enumerate()}:
            await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == tasks


@pytest.mark.parametrize("name", OPENED)
async def test_whoever_is_given_up_while_it_opens_leaves_nothing(
    name: str, redis: Redis, redis_url: str
) -> None:
    before, turns, entered = (asyncio.all_tasks(), await named(redis)), 0, False
    while not entered:
        thing = OPENED[name](redis_url)
        opening = asyncio.create_task(thing.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        entered, turns = opening.done(), 1 + turns * 5 // 4
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        if entered:
            await thing.close()
        await nothing_is_left(redis, *before)


@pytest.mark.parametrize("name", OPENED)
async def test_whoever_is_given_up_just_when_it_is_open_leaves_nothing(
    name: str, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, thing = (asyncio.all_tasks(), await named(redis)), OPENED[name](redis_url)
    reached = thing._on_connect

    async def then_given_up(store: Any) -> None:
        await reached(store)
        opening.cancel()

    monkeypatch.setattr(thing, "_on_connect", then_given_up)
    opening = asyncio.create_task(thing.__aenter__())
    with pytest.raises(asyncio.CancelledError):
        await opening
    await nothing_is_left(redis, *before)
