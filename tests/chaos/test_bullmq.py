"""A BullMQ queue while everything around it breaks: every job ends exactly once."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.chaos.fleet import Fleet
from tests.chaos.history import History
from tests.chaos.worker import LOCK_MS
from tests.support.patience import LIMIT_S
from tests.support.size import size
from waystation.bullmq import JobOptions, Queue
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.errors import StoreError
from waystation.core.store import embedded
from waystation.core.store.connection import StoreOptions, connect
from waystation.core.store.embedded import Ephemeral

KEYS = QueueKeys("chaos")
PATIENT = StoreOptions(call_timeout=2.0)


@pytest.fixture
def durable() -> Iterator[Ephemeral]:
    """A server that has written down whatever it acknowledges."""
    with embedded.ephemeral({"appendonly": "yes", "appendfsync": "always"}) as server:
        yield server


@pytest.fixture
async def queue(durable: Ephemeral) -> AsyncIterator[Queue]:
    async with await connect(durable.url, PATIENT) as store, Queue("chaos", store) as opened:
        # The judge reads the whole stream.
        await store.redis.hset(KEYS.meta, "opts.maxLenEvents", "1000000")  # pyright: ignore
        yield opened


async def produce(queue: Queue, history: History, stop: asyncio.Event) -> None:
    """Add jobs under names of their own, again and again until the store has said yes."""
    for number in count():
        if stop.is_set():
            return
        id = f"job-{number}"
        name = {0: "moody", 1: "slow"}.get(number % 5, "plain")
        options = JobOptions(job_id=id, attempts=10, backoff=10)
        history.ask(id)
        while True:
            try:
                await queue.add(name, {"number": number}, options)
                break
            except StoreError:
                await asyncio.sleep(0.1)
        history.acknowledge(id)
        await asyncio.sleep(0.01)


async def break_things(server: Ephemeral, fleet: Fleet, rounds: int) -> None:
    """Kill and freeze workers, freeze the server, kill it, make it forget its scripts."""
    for number in range(rounds):
        await asyncio.sleep(random.uniform(0.3, 0.7))
        match number % 5:
            case 0:
                await fleet.kill_one()
            case 2 | 4:
                await fleet.freeze_one(3 * LOCK_MS / 1000)
            case 1:
                async with Redis.from_url(server.url, protocol=2) as redis:
                    await redis.script_flush()
                server.freeze()
                await asyncio.sleep(0.4)
                server.thaw()
            case _:
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.restart)
        await fleet.refill()


async def read_events(redis: Redis, history: History) -> None:
    """Every claim and every accepted outcome, each reported in the step that makes it."""
    entries: Any = await redis.xrange(KEYS.events)
    for _, entry in entries:
        id = entry.get(b"jobId", b"").decode()
        match entry[b"event"]:
            case b"active":
                history.claim(id)
            case b"completed":
                history.end_of_claim(id, int(entry[b"returnvalue"]))
            case b"failed":
                history.end([id])
            case _:
                pass


async def quiet(redis: Redis, fleet: Fleet, *, within: float) -> None:
    """Wait until nothing is left to do."""
    async with asyncio.timeout(within):
        while True:
            left: list[Any] = [
                await redis.exists(getattr(KEYS, state))
                for state in ("wait", "active", "delayed", "prioritized")
            ]
            if not any(left):
                return
            await fleet.refill()
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.full
async def test_every_job_ends_exactly_once_whatever_breaks(
    durable: Ephemeral, queue: Queue
) -> None:
    history, stop = History(), asyncio.Event()
    async with Fleet(durable.url, "chaos", size=3) as fleet:
        producing = asyncio.create_task(produce(queue, history, stop))
        await break_things(durable, fleet, rounds=size(5, full=15))
        stop.set()
        await producing
        async with Redis.from_url(durable.url, protocol=2) as redis:
            await quiet(redis, fleet, within=LIMIT_S)
            await fleet.stop()
            await read_events(redis, history)
            leftovers = await strange_keys(redis)

    assert fleet.last_words == []
    assert history.acknowledged > 100
    assert history.verdict().is_clean, history.verdict()
    assert leftovers == []


async def strange_keys(redis: Redis) -> list[str]:
    """Keys that have no business in a queue where all work is done."""
    keys: list[Any] = await redis.keys("*")
    names = [key.decode().removeprefix(KEYS.base) for key in keys]
    usual = {"id", "meta", "events", "completed", "failed", "marker", "stalled-check"}
    return sorted(name for name in names if name not in usual and not name[4:].isdigit())


@pytest.mark.slow
async def test_a_job_that_kills_its_worker_fails_with_a_reason_and_harms_no_other(
    durable: Ephemeral, queue: Queue
) -> None:
    history = History()
    await queue.add("poison", {}, JobOptions(job_id="poison", attempts=3))
    others = [await queue.add("plain", {"number": number}) for number in range(20)]
    async with (
        Fleet(durable.url, "chaos", size=1, max_stalled=1, concurrency=1) as fleet,
        Redis.from_url(durable.url, protocol=2) as redis,
    ):
        await quiet(redis, fleet, within=LIMIT_S)
        await fleet.stop()
        poisoned = await queue.get_job("poison")
        for id in ("poison", *(job.id for job in others)):
            history.acknowledge(id)
        await read_events(redis, history)
        completed = {job.id for job in await queue.get_jobs("completed", limit=None)}

    assert poisoned is not None
    assert poisoned.failed_reason == "job stalled more than allowable limit"
    assert poisoned.attempts_made == 1
    assert completed == {job.id for job in others}
    assert history.verdict().is_clean, history.verdict()
    assert fleet.last_words == []
