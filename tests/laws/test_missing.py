"""No job that a store has is called lost, however it moves while a history looks; a lost one is."""

import asyncio
import datetime as dt
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeAlias

import msgspec
import pytest
from redis import Redis

from tests.files import harness as files_harness
from tests.routing.harness import harness_on
from waystation.bullmq import Queue
from waystation.files.queue import Queue as FileQueue
from waystation.pipeline.products import facts, product_named
from waystation.pipeline.refresh import ledger, snapshot
from waystation.pipeline.refresh.ledger import LOST, judged
from waystation.pipeline.refresh.snapshot import Snapshot, take_snapshot
from waystation.pipeline.silver.steps import SUBJECT
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.arrow import pa
from waystation.waitingroom import Joined, JoinRequest, Place, Room, RoomOptions

PAGE = 10
COMMANDS = ("lrange", "zrange", "zscan", "sscan")
"""What a snapshot reads pages with."""


class Crowd(msgspec.Struct, kw_only=True):
    """What waits in one product, and what can happen to it."""

    product: str
    queue: str
    prefix: str
    ids: list[str]
    quiet: str
    """One that no move reaches."""
    move: Callable[[], Awaitable[Any]]
    """Let some of it go on: what is claimed, moved or taken out shifts the others."""
    end: Callable[[str], Awaitable[Any]]
    """End one of it, with an event."""
    tear: Callable[[Any, str], Any]
    """Take one out of wherever it waits, by hand."""

    @property
    def stream(self) -> str:
        return product_named(self.product).streams.key(self.prefix, self.queue)


@asynccontextmanager
async def bullmq_jobs(url: str) -> AsyncGenerator[Crowd]:
    async with Queue("mail", url) as queue:
        added = await queue.add_many([("send", {}) for _ in range(60)])
        ids = [job.id for job in added]
        newest = iter(ids[:9:-1])

        async def move() -> None:
            # The newest are read first.
            for _ in range(3):
                if job_id := next(newest, None):
                    await queue.remove(job_id)

        yield Crowd(
            product="bullmq",
            queue="mail",
            prefix="bull",
            ids=ids,
            quiet=ids[5],
            move=move,
            end=queue.remove,
            tear=lambda store, job_id: store.lrem("bull:mail:wait", 1, job_id),
        )


@asynccontextmanager
async def routing_jobs(url: str) -> AsyncGenerator[Crowd]:
    async with harness_on(url) as harness:
        # Those in the middle are taken out of turn, and the last of the list fill their gaps.
        ids = [await harness.add("paint" if 110 <= n < 150 else "render") for n in range(260)]
        plain, painter = (
            harness.source("w1", types=["render"]),
            harness.source("w2", types=["paint"]),
        )

        async def move() -> None:
            for claim in await harness.claim(plain, 3):
                await harness.settle(plain, claim)
            await harness.claim(painter, 2)

        def tear(store: Any, job_id: str) -> None:
            store.lrem(harness.keys.waiting, 1, job_id)

        yield Crowd(
            product="routing",
            queue="render",
            prefix="bridge",
            ids=ids,
            quiet=ids[220],
            move=move,
            end=harness.queue.cancel,
            tear=tear,
        )


@asynccontextmanager
async def added_files(url: str) -> AsyncGenerator[Crowd]:
    async with files_harness.harness_on(url) as harness:
        queue = FileQueue(harness.store)
        # One has been handed over to workers that have a handler for it.
        picky = harness.source(ending=".pdf")
        ids = [await harness.add("/inbox/other.txt", priority="high")]
        for _ in range(2):
            await picky.settle([], claim=1)
        assert await queue.state(ids[0]) == "unmatched"
        ids += [await harness.add(f"/inbox/{number}.pdf") for number in range(60)]
        newest = iter(ids[:9:-1])

        async def move() -> None:
            await picky.settle([], claim=1)
            for _ in range(3):
                if job_id := next(newest, None):
                    await queue.cancel(job_id)

        def tear(store: Any, job_id: str) -> None:
            for key in harness.keys.queues:
                for raw in store.lrange(key, 0, -1):
                    if job_id.encode() in raw:
                        store.lrem(key, 1, raw)

        yield Crowd(
            product="files",
            queue="jobqueue:low_priority",
            prefix="jobqueue",
            ids=ids,
            quiet=ids[5],
            move=move,
            end=queue.cancel,
            tear=tear,
        )


@asynccontextmanager
async def visitors(url: str) -> AsyncGenerator[Crowd]:
    async with Room("sale", url) as room:
        await room.open(RoomOptions(admission_rate=1, newcomers_per_minute=0))
        places: dict[str, Place] = {}
        for number in range(60):
            entry = await room.join(JoinRequest(key=f"{number}", secret="s"))
            assert isinstance(entry, Joined)
            places[entry.place.id] = entry.place
        waiting = iter(list(places.values())[30:])

        async def move() -> None:
            if place := next(waiting, None):
                await room.leave(place, "s")

        yield Crowd(
            product="waitingroom",
            queue="{sale}",
            prefix="queue",
            ids=list(places),
            quiet=next(iter(places)),
            move=move,
            end=lambda job_id: room.leave(places[job_id], "s"),
            tear=lambda store, job_id: store.zrem("queue:{sale}:positions", job_id),
        )


OpenCrowd: TypeAlias = Callable[[str], Any]
CROWDS: dict[str, OpenCrowd] = {
    "bullmq": bullmq_jobs,
    "routing": routing_jobs,
    "files": added_files,
    "waitingroom": visitors,
}


@pytest.fixture
def store(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture(params=CROWDS)
async def crowd(
    request: pytest.FixtureRequest, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Crowd]:
    for module in (facts, ledger, snapshot):
        monkeypatch.setattr(module, "PAGE", PAGE)
    async with CROWDS[request.param](redis_url) as opened:
        yield opened


async def restless(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch, look: Callable[[], Any], moves: int = 20
) -> Any:
    """What a look finds, with some of the crowd going on after each page."""
    loop, left = asyncio.get_running_loop(), iter(range(moves))

    def moving(command: str) -> Callable[..., Any]:
        plain = getattr(Redis, command)

        def moved(*args: Any, **named: Any) -> Any:
            page = plain(*args, **named)
            if next(left, None) is not None:
                asyncio.run_coroutine_threadsafe(_moved(crowd), loop).result()
            return page

        return moved

    with monkeypatch.context() as patched:
        for command in COMMANDS:
            patched.setattr(Redis, command, moving(command))
        return await asyncio.to_thread(look)


async def _moved(crowd: Crowd) -> None:
    await crowd.move()


def suspects(store: Any, crowd: Crowd, seen: Snapshot) -> Any:
    """The jobs that are open by their events up to the snapshot's end, and not in it."""
    name = product_named(crowd.product).field_names.job_id.encode()
    last: dict[str, dt.datetime] = {}
    for entry_id, fields in store.xrange(crowd.stream, "-", seen.ends[crowd.stream].id):
        millis = int(entry_id.split(b"-")[0])
        last[fields.get(name, b"").decode()] = dt.datetime.fromtimestamp(millis / 1000, dt.UTC)
    there = {row["job_id"] for row in seen.seen.to_pylist() if row["whole"]}
    # Entries have the time of their millisecond's beginning.
    before = seen.at.replace(microsecond=seen.at.microsecond // 1000 * 1000)
    rows = [
        {"product": crowd.product, "queue": crowd.queue, "job_id": each, "last_recorded_at": at}
        for each, at in last.items()
        if each in crowd.ids and each not in there and at < before
    ]
    at = pa.timestamp("us", "UTC")
    kinds = [*((name, pa.string()) for name in SUBJECT), ("last_recorded_at", at)]
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def lost(found: Any) -> set[str]:
    return {row["job_id"] for row in found.to_pylist() if row["fate"] == LOST}


async def test_whatever_moves_between_two_pages_is_not_lost_and_what_is_torn_out_is(
    crowd: Crowd, redis_url: str, store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = crowd.quiet
    crowd.tear(store, torn)
    await asyncio.sleep(0.002)  # The events are older than the snapshot.
    options = EventOptions(url=redis_url, products=crowd.product)

    seen = await restless(crowd, monkeypatch, lambda: take_snapshot(options, is_first=True))
    unseen = suspects(store, crowd, seen)
    found = await restless(crowd, monkeypatch, lambda: judged(unseen, seen))
    assert lost(found) == {torn}
    assert lost(judged(unseen, seen)) == {torn}


async def test_what_was_passed_over_and_has_ended_since_is_left_to_the_next_round(
    crowd: Crowd, redis_url: str, store: Redis
) -> None:
    await asyncio.sleep(0.002)
    seen = take_snapshot(EventOptions(url=redis_url, products=crowd.product), is_first=True)
    assert suspects(store, crowd, seen).num_rows == 0
    passed_over, torn, waiting = crowd.ids[5:8]
    rows = seen.seen.filter(
        pa.array(row["job_id"] not in crowd.ids[5:8] for row in seen.seen.to_pylist())
    )
    seen = msgspec.structs.replace(seen, seen=rows)
    unseen = suspects(store, crowd, seen)
    assert {row["job_id"] for row in unseen.to_pylist()} == {passed_over, torn, waiting}
    crowd.tear(store, torn)
    await crowd.end(passed_over)
    found = judged(unseen, seen)
    assert lost(found) == {torn}
    assert [row["job_id"] for row in found.to_pylist()] == [torn]


@pytest.mark.parametrize("seed", range(10))
def test_a_list_is_read_whole_whatever_is_pushed_and_taken_out_between_two_pages(
    seed: int, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, plain = Random(seed), store.lrange
    monkeypatch.setattr(facts, "PAGE", PAGE)
    stays = {f"stays {number}".encode() for number in range(100)}
    goes = [f"goes {number}" for number in range(200)]
    store.rpush("all", *random.sample([*stays, *goes], 300))

    def restless(*args: Any) -> list[bytes]:
        page = plain(*args)
        for _ in range(random.randrange(2 * PAGE) if goes else 0):
            if goes:
                store.lrem("all", 1, goes.pop(random.randrange(len(goes))))
        for push in random.choices([store.lpush, store.rpush], k=random.randrange(PAGE)):
            push("all", random.random())
        return page

    monkeypatch.setattr(store, "lrange", restless)
    assert stays <= set(itertools.islice(facts.list_elements(store, "all"), 10_000))
    store.delete("all")
    assert list(facts.list_elements(store, "all")) == []
