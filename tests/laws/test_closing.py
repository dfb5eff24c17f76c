"""Whoever waits for something of a queue ends with an error when the queue is closed."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from tests.support.listening import blocked_on
from tests.support.patience import LIMIT_S, limit, until
from tests.support.ports import free_port
from waystation import bullmq, files, routing, sync, waitingroom
from waystation.core.errors import StoreUnreachable
from waystation.core.runtime.handlers.pools import Threads
from waystation.core.store.connection import Store, connect
from waystation.core.store.embedded import Ephemeral

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


class Reader(NamedTuple):
    """Something that goes on until what it reads from is closed."""

    name: str
    make: Callable[[Any], Any]
    """Of a URL or a store."""
    read: Callable[[Any, str], AsyncIterator[Any]]
    """Of what was made, and a job that does not end."""
    promises: bool = False
    """Whether it ends with an error, because what was promised cannot come any more."""
    holds: bool = True
    """Whether there is something to read already."""

    def begin(self, thing: Any, jobs: dict[str, str]) -> AsyncIterator[Any]:
        """Read something that was made, and the product's job."""
        return self.read(thing, jobs.get(self.name.partition(".")[0], ""))


def old(queue: Any, _: str) -> AsyncIterator[Any]:
    return queue.events(after="0-0")


def new(queue: Any, _: str) -> AsyncIterator[Any]:
    return queue.events()


def parts(queue: Any, job_id: str) -> AsyncIterator[Any]:
    return queue.stream(job_id)


def heard(events: Any, _: str) -> AsyncIterator[Any]:
    return aiter(events)


def listened(events: Any, _: str) -> AsyncIterator[Any]:
    return events.listen("0")


async def waited(queue: Any, job_id: str) -> AsyncIterator[Any]:
    yield await queue.wait(job_id)


def bull(url: Any) -> Any:
    return bullmq.Queue("mail", url)


def room(url: Any) -> Any:
    return waitingroom.Room("door", url)


def listener(url: Any) -> Any:
    return bullmq.QueueEvents("mail", url)


READERS = [
    Reader("bullmq.events", bull, old),
    Reader("bullmq.new events", bull, new, holds=False),
    Reader("bullmq.stream", bull, parts, promises=True),
    Reader("bullmq.wait", bull, waited, promises=True, holds=False),
    Reader("QueueEvents", listener, heard, holds=False),
    Reader("QueueEvents.listen", listener, listened),
    Reader("QueueEvents.wait", listener, waited, promises=True, holds=False),
    Reader("routing.events", routing.Queue, old),
    Reader("routing.new events", routing.Queue, new, holds=False),
    Reader("routing.wait", routing.Queue, waited, promises=True, holds=False),
    Reader("files.events", files.Queue, old),
    Reader("files.new events", files.Queue, new, holds=False),
    Reader("files.wait", files.Queue, waited, promises=True, holds=False),
    Reader("room.events", room, old),
    Reader("room.new events", room, new, holds=False),
]
SOON_S = limit(2.5)
"""Half as long as the shortest read that blocks until something happens."""


async def jobs_to_read_of(redis: Redis, url: str, folder: Path) -> dict[str, str]:
    """Jobs that nobody works on, by what makes their queue; and a room, each with events."""
    async with bull(url) as mail, routing.Queue(url) as routes, files.Queue(url) as inbox:
        job = await mail.add("send")
        await redis.xadd(f"bull:mail:{job.id}:output", {"part": "1"})
        sent, found = await routes.add("send"), await inbox.add(make_file(folder, 1))
    assert found is not None
    async with room(url) as door:
        await door.open()
    return {"bullmq": job.id, "QueueEvents": job.id, "routing": sent.id, "files": found.id}


async def read_all(iterator: AsyncIterator[Any]) -> None:
    async for _ in iterator:
        pass


async def reading(redis: Redis) -> list[str]:
    """The connections by which streams are read."""
    return [each["id"] for each in await redis.client_list() if each["cmd"] == "xread"]


async def ended_soon(
    readers: list[tuple[Reader, asyncio.Task[None]]],
) -> dict[str, Any]:
    """How each has ended; `reads on` for those who have not."""
    tasks = [task for _, task in readers]
    _, hanging = await asyncio.wait(tasks, timeout=SOON_S)
    for each in hanging:
        each.cancel()
    await asyncio.wait(tasks)
    return {
        each.name: "reads on" if task in hanging else type(task.exception())
        for each, task in readers
    }


def as_promised(readers: list[tuple[Reader, asyncio.Task[None]]]) -> dict[str, Any]:
    return {each.name: StoreUnreachable if each.promises else type(None) for each, _ in readers}


@pytest.mark.parametrize("closed", ["its own store", "a given store", "the given store itself"])
async def test_whatever_reads_on_ends_when_it_is_closed_and_leaves_no_connection(
    closed: str, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    jobs = await jobs_to_read_of(redis, redis_url, tmp_path)
    before = await named(redis)
    store = None if closed == "its own store" else await connect(redis_url)
    things = [each.make(store or redis_url) for each in READERS]
    readers, holding = list[tuple[Reader, asyncio.Task[None]]](), list[AsyncIterator[Any]]()
    async with asyncio.timeout(LIMIT_S):
        for each, thing in zip(READERS, things, strict=True):
            readers.append((each, asyncio.create_task(read_all(each.begin(thing, jobs)))))
            if each.holds:
                holding.append(each.begin(thing, jobs))
                await anext(holding[-1])
        await blocked_on(redis, len(READERS))
        if closed == "the given store itself" and store is not None:
            await store.close()
        else:
            await asyncio.gather(*(thing.close() for thing in things))
        assert await ended_soon(readers) == as_promised(readers)
        await until(lambda: nobody(reading(redis)))
        for each in holding:
            with suppress(StoreUnreachable):
                await read_all(each)
        await asyncio.gather(*(thing.close() for thing in things))
        if isinstance(store, Store):
            await store.close()

        async def all_left() -> bool:
            return not await named(redis) - before

        await until(all_left)


async def nobody(found: Awaitable[list[str]]) -> bool:
    return not await found


@pytest.mark.parametrize("given", [False, True])
async def test_whoever_waits_for_a_store_that_is_away_ends_when_it_is_closed(
    given: bool, redis: Redis, own_server: Ephemeral, tmp_path: Path
) -> None:
    url = own_server.url
    async with await connect(url) as store, await connect(url) as other:
        jobs = await jobs_to_read_of(other.redis, url, tmp_path)
        things = [each.make(store if given else url) for each in READERS]
        readers = [
            (each, asyncio.create_task(read_all(each.begin(thing, jobs))))
            for each, thing in zip(READERS, things, strict=True)
        ]
        async with asyncio.timeout(LIMIT_S):
            await blocked_on(other.redis, len(READERS))
            own_server.kill()
            await asyncio.sleep(0.5)
            closing = asyncio.gather(*(thing.close() for thing in things))
            assert await ended_soon(readers) == as_promised(readers)
            await closing


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
