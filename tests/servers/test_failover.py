"""The primary dies while a worker drains its queue, and the sentinels put its replica in charge."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from tests.support.patience import limit
from waystation.bullmq import Job, Queue, Worker
from waystation.core.errors import StoreError
from waystation.core.store import embedded
from waystation.core.store.connection import Store, StoreOptions, connect
from waystation.core.store.connection.store import Durability
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.reconnect import reconnecting

SERVICE = "shop"
ON_TWO = StoreOptions(durability=Durability.REPLICA, replica_timeout=20.0)


class Arrangement(NamedTuple):
    """A primary, its replica, and the address at which three sentinels say which is which."""

    primary: Ephemeral
    replica: Ephemeral
    url: str


@contextlib.asynccontextmanager
async def arranged() -> AsyncGenerator[Arrangement]:
    with ExitStack() as running:
        primary = running.enter_context(embedded.ephemeral({"repl-diskless-sync-delay": "0"}))
        replica = running.enter_context(embedded.ephemeral())
        await ask(replica, "REPLICAOF", "127.0.0.1", primary.port)
        await ask(primary, "SET", "first", "1")
        while not await ask(primary, "WAIT", 1, 1000):
            pass
        sentinels = [
            running.enter_context(
                embedded.sentinel(SERVICE, of=primary, quorum=2, down_after_ms=1000)
            )
            for _ in range(3)
        ]
        await know_each_other(sentinels)
        places = ",".join(f"127.0.0.1:{each.port}" for each in sentinels)
        yield Arrangement(primary, replica, f"redis+sentinel://{places}/{SERVICE}/0")


async def know_each_other(sentinels: list[Ephemeral]) -> None:
    """Wait until each sentinel knows the others and the replica."""
    for each in sentinels:
        while True:
            answer = await ask(each, "SENTINEL", "MASTER", SERVICE)
            facts = dict(zip(answer[::2], answer[1::2], strict=True))
            if (facts[b"num-slaves"], facts[b"num-other-sentinels"]) == (b"1", b"2"):
                break
            await asyncio.sleep(0.05)


async def ask(server: Ephemeral, *command: str | int) -> Any:
    async with Redis.from_url(server.url, protocol=2) as redis:
        answer: Any = await redis.connection_pool.get_connection()
        try:
            await answer.send_command(*command)
            return await answer.read_response()
        finally:
            await redis.connection_pool.release(answer)


async def add_until_the_store_is_gone(store: Store) -> list[str]:
    """Add one lot after the other; the ids of the jobs that were acknowledged."""
    acknowledged: list[str] = []
    async with Queue("orders", store) as queue:
        while True:
            try:
                jobs = await queue.add_many(("pack", n) for n in range(50))
            except StoreError:
                return acknowledged
            acknowledged += [job.id for job in jobs]


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_and_each_outcome_counts_once() -> None:
    packed, runs = asyncio.Event(), Counter[str]()

    async def pack(job: Job) -> None:
        runs[job.id] += 1
        if len(runs) == 200:
            packed.set()

    async with AsyncExitStack() as open:
        servers = await open.enter_async_context(arranged())
        store = await open.enter_async_context(await connect(servers.url, ON_TWO))
        queue = await open.enter_async_context(Queue("orders", servers.url))
        worker = Worker("orders", pack, servers.url, concurrency=20, lease=2, stalled_interval=1)
        await open.enter_async_context(worker)
        await open.enter_async_context(asyncio.timeout(limit(100)))
        adding = asyncio.create_task(add_until_the_store_is_gone(store))
        await packed.wait()
        servers.primary.kill()
        acknowledged = await adding
        await reconnecting(lambda: queue.add("pack", job_id="afterwards"))
        while await queue.count() or (await queue.counts("active"))["active"]:
            await asyncio.sleep(0.1)
        completed = {job.id for job in await queue.get_jobs("completed", limit=100_000)}
        entries: Any = await ask(servers.replica, "XRANGE", "bull:orders:events", "-", "+")

    completions = Counter(_completed(fields) for _, fields in entries)
    del completions[None]
    assert len(acknowledged) >= 200
    assert {*acknowledged, "afterwards"} <= completed
    assert set(completions.values()) == {1}


def _completed(fields: list[bytes]) -> bytes | None:
    entry = dict(zip(fields[::2], fields[1::2], strict=True))
    return entry[b"jobId"] if entry[b"event"] == b"completed" else None
