"""Fetching: how a worker claims files from their queues."""

import asyncio

import pytest

from tests.files.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.line import wake_up
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled
from waystation.files.claims import FileSource
from waystation.files.redis import scripts


async def fetched(source: FileSource, count: int) -> list[str]:
    return [claim.id for claim in (await source.settle([], claim=count)).claims]


async def test_the_queues_are_asked_in_the_order_of_their_priority(harness: Harness) -> None:
    """T-21, T-23: the first priority goes first; nothing waits for a queue that is empty."""
    low = [await harness.add() for _ in range(2)]
    high = [await harness.add(priority="high") for _ in range(2)]
    source = harness.source()
    assert await fetched(source, 3) == [*high, low[0]]
    assert await fetched(source, 3) == [low[1]]


async def test_what_is_fetched_is_in_the_workers_list_byte_for_byte(harness: Harness) -> None:
    """T-22: one step moves it, so that it is in one of the two places at any instant.
    F-T14: the bytes stay as they came, whatever their order and spaces.
    """
    raw = b'{ "filepath" : "/a" , "id" : "odd" }'
    await harness.redis.lpush("jobqueue:low_priority", raw)
    source = harness.source(worker="w1")
    assert await fetched(source, 5) == ["odd"]
    assert await harness.redis.lrange("jobqueue:worker:w1:processing", 0, -1) == [raw]
    assert await harness.redis.llen("jobqueue:low_priority") == 0


async def test_the_heartbeat_is_there_before_anything_is_fetched(harness: Harness) -> None:
    """T-24, F-T2, F-T9: one for the worker, with the time in it, and a TTL from the setting."""
    await harness.add()
    source = harness.source(worker="w1")
    await source.open()
    key = "jobqueue:processing:worker:w1"
    assert await harness.redis.get(key) == b'{"ts":%d}' % harness.clock.now_ms()
    await harness.redis.delete(key)
    await fetched(source, 1)
    assert 15_000 < await harness.redis.pttl(key) <= 30_000


async def test_the_heartbeat_is_renewed_while_there_is_something_to_hold(harness: Harness) -> None:
    """T-25: the worker's heart beats for as long as it runs, idle or not."""
    source = harness.source(worker="w1")
    async with source.keeper() as extend:
        async with asyncio.timeout(LIMIT_S):
            while not await harness.redis.exists("jobqueue:processing:worker:w1"):
                await asyncio.sleep(0.01)
        await harness.redis.delete("jobqueue:processing:worker:w1")
        assert list(await extend([])) == []
        assert await harness.redis.exists("jobqueue:processing:worker:w1")


async def test_with_weights_no_priority_starves(harness: Harness) -> None:
    """F-T12: eight to two while both have work, also when fetched one by one."""
    harness.set(weights=(8, 2))
    for _ in range(60):
        await harness.add()
        await harness.add(priority="high")
    source = harness.source()
    urgent = [
        claim.work.priority == "high"
        for _ in range(50)
        for claim in (await source.settle([], claim=1)).claims
    ]
    assert (urgent.count(True), urgent.count(False)) == (40, 10)
    many = (await harness.source().settle([], claim=20)).claims
    assert sum(claim.work.priority == "high" for claim in many) == 16


async def test_weights_leave_nothing_idle_when_one_queue_is_empty(harness: Harness) -> None:
    harness.set(weights=(8, 2))
    ids = [await harness.add() for _ in range(5)]
    assert await fetched(harness.source(), 10) == ids


async def test_a_worker_blocked_on_nothing_is_woken_by_a_producer(harness: Harness) -> None:
    """T-23: whoever waits gets new work at once, not after a timeout."""
    harness.set(poll=3600.0)
    source = harness.source()
    waiting = asyncio.create_task(source.wait(3600))
    await asyncio.sleep(0.05)
    await harness.add()
    await asyncio.wait_for(waiting, LIMIT_S)


async def test_a_worker_that_leaves_work_behind_wakes_another(harness: Harness) -> None:
    harness.set(poll=3600.0)
    for _ in range(3):
        await harness.add()
    await harness.redis.delete(harness.keys.wake)
    await harness.source().settle([], claim=1)
    await asyncio.wait_for(harness.source().wait(3600), LIMIT_S)


async def test_a_due_retry_ends_the_wait(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is looked for when a block ends.
    monkeypatch.setattr(wake_up, "LONGEST_BLOCK_S", 0.1)
    harness.set(backoff=60, backoff_max=60, poll=3600.0)
    await harness.add()
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Failed(RuntimeError()))], claim=0)
    assert await fetched(source, 1) == []
    await harness.redis.delete(harness.keys.wake)
    await harness.clock.advance(60)
    await asyncio.wait_for(source.wait(3600), LIMIT_S)


@pytest.fixture
def endless_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker at rest is woken, or sleeps for longer than any test."""
    monkeypatch.setattr(wake_up, "LONGEST_BLOCK_S", 600.0)


@pytest.mark.usefixtures("endless_block")
async def test_a_retry_ends_a_wait_that_began_before_it_was_filed(harness: Harness) -> None:
    """An idle worker's pause is the backoff, not what is left of its own wait."""
    harness.set(backoff=0.01, poll=600)
    for path in ("/a", "/b"):
        await harness.add(path)
    source = harness.source()
    first, second = (await source.settle([], claim=2)).claims
    await harness.redis.delete(harness.keys.wake)
    waiting = asyncio.create_task(source.wait(600))
    await asyncio.sleep(0)
    await source.settle([Settled(first, Failed(ValueError()))], claim=1)
    await asyncio.wait_for(waiting, LIMIT_S)

    # Also when there is something else to fetch.
    await harness.add("/c")
    await harness.redis.delete(harness.keys.wake)
    waiting = asyncio.create_task(source.wait(600))
    await asyncio.sleep(0)
    reply = await source.settle([Settled(second, Failed(ValueError()))], claim=2)
    assert [claim.work.filepath for claim in reply.claims] == ["/c"]
    await asyncio.wait_for(waiting, LIMIT_S)


@pytest.mark.usefixtures("endless_block")
@pytest.mark.parametrize("room", [0, 1])
async def test_a_worker_without_room_tells_an_idle_one_of_a_retry(
    harness: Harness, room: int
) -> None:
    harness.set(backoff=0.01, poll=600)
    await harness.add("/a")
    busy, idle = harness.source(), harness.source()
    (claim,) = (await busy.settle([], claim=1)).claims
    await idle.settle([], claim=1)
    if room:
        await harness.add("/b")
    await harness.redis.delete(harness.keys.wake)
    waiting = asyncio.create_task(idle.wait(600))
    await busy.settle([Settled(claim, Failed(ValueError()))], claim=room)
    await asyncio.wait_for(waiting, LIMIT_S)
    # It knows now, and waits no longer than that.
    assert not (await idle.settle([], claim=1)).claims
    await asyncio.wait_for(idle.wait(600), LIMIT_S)


async def test_the_cost_of_a_fetch_does_not_grow_with_what_waits(harness: Harness) -> None:
    """Counted in commands, not in seconds: the script calls the same ones over 10 and 10,000."""

    async def commands() -> int:
        before = await harness.redis.info("commandstats")
        await harness.source().settle([], claim=5)
        after = await harness.redis.info("commandstats")
        names = ("rpop", "lpush", "xadd", "zrangebyscore", "llen", "lrange")
        return sum(
            after.get(f"cmdstat_{name}", {"calls": 0})["calls"]
            - before.get(f"cmdstat_{name}", {"calls": 0})["calls"]
            for name in names
        )

    for _ in range(10):
        await harness.add()
    few = await commands()
    raws = [b'{"id":"%d","filepath":"/a"}' % number for number in range(10_000)]
    await harness.redis.lpush("jobqueue:low_priority", *raws)
    assert await commands() == few


async def test_a_worker_that_leaves_takes_its_name_along(harness: Harness) -> None:
    source = harness.source(worker="w1")
    await source.open()
    await source.close()
    assert await scripts.promote(harness.redis, harness.keys, now="", events_cap=100, most=10) == 0
    assert await harness.redis.keys("*worker*w1*") == []
    assert await harness.redis.scard(harness.keys.workers) == 0
