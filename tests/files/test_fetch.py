"""How files get out of their queues and into a worker's hands."""

import asyncio

import pytest

from tests.files.hands import Hands
from tests.support.deaf import made_deaf
from tests.support.patience import LIMIT_S
from waystation.core.errors import StoreUnreachable
from waystation.core.line import wake_up
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Settled
from waystation.files.claims import FileSource
from waystation.files.redis import scripts


async def fetched(source: FileSource, count: int) -> list[str]:
    return [claim.id for claim in (await source.settle([], claim=count)).claims]


async def test_the_queues_are_asked_in_the_order_of_their_priority(hands: Hands) -> None:
    """T-21, T-23: the first priority goes first; nothing waits for a queue that is empty."""
    low = [await hands.add() for _ in range(2)]
    high = [await hands.add(priority="high") for _ in range(2)]
    source = hands.source()
    assert await fetched(source, 3) == [*high, low[0]]
    assert await fetched(source, 3) == [low[1]]


async def test_what_is_fetched_is_in_the_workers_list_byte_for_byte(hands: Hands) -> None:
    """T-22: one step moves it, so that it is in one of the two places at any instant.
    F-T14: the bytes stay as they came, whatever their order and spaces.
    """
    raw = b'{ "filepath" : "/a" , "id" : "odd" }'
    await hands.redis.lpush("jobqueue:low_priority", raw)
    source = hands.source(worker="w1")
    assert await fetched(source, 5) == ["odd"]
    assert await hands.redis.lrange("jobqueue:worker:w1:processing", 0, -1) == [raw]
    assert await hands.redis.llen("jobqueue:low_priority") == 0


async def test_the_heartbeat_is_there_before_anything_is_fetched(hands: Hands) -> None:
    """T-24, F-T2, F-T9: one for the worker, with the time in it, and a TTL from the setting."""
    await hands.add()
    source = hands.source(worker="w1")
    await source.open()
    key = "jobqueue:processing:worker:w1"
    assert await hands.redis.get(key) == b'{"ts":%d}' % hands.clock.now_ms()
    await hands.redis.delete(key)
    await fetched(source, 1)
    assert 15_000 < await hands.redis.pttl(key) <= 30_000


async def test_the_heartbeat_is_renewed_while_there_is_something_to_hold(hands: Hands) -> None:
    """T-25: the worker's heart beats for as long as it runs, idle or not."""
    source = hands.source(worker="w1")
    async with source.keeper() as extend:
        async with asyncio.timeout(LIMIT_S):
            while not await hands.redis.exists("jobqueue:processing:worker:w1"):
                await asyncio.sleep(0.01)
        await hands.redis.delete("jobqueue:processing:worker:w1")
        assert list(await extend([])) == []
        assert await hands.redis.exists("jobqueue:processing:worker:w1")


async def test_with_weights_no_priority_starves(hands: Hands) -> None:
    """F-T12: eight to two while both have work, also when fetched one by one."""
    hands.set(weights=(8, 2))
    for _ in range(60):
        await hands.add()
        await hands.add(priority="high")
    source = hands.source()
    urgent = [
        claim.work.priority == "high"
        for _ in range(50)
        for claim in (await source.settle([], claim=1)).claims
    ]
    assert (urgent.count(True), urgent.count(False)) == (40, 10)
    many = (await hands.source().settle([], claim=20)).claims
    assert sum(claim.work.priority == "high" for claim in many) == 16


async def test_weights_leave_nothing_idle_when_one_queue_is_empty(hands: Hands) -> None:
    hands.set(weights=(8, 2))
    ids = [await hands.add() for _ in range(5)]
    assert await fetched(hands.source(), 10) == ids


async def test_a_worker_blocked_on_nothing_is_woken_by_a_producer(hands: Hands) -> None:
    """T-23: whoever waits hears of new work at once, not after a timeout."""
    hands.set(poll=3600.0)
    source = hands.source()
    waiting = asyncio.create_task(source.wait(3600))
    await asyncio.sleep(0.05)
    await hands.add()
    await asyncio.wait_for(waiting, LIMIT_S)


async def test_a_worker_that_leaves_work_behind_wakes_another(hands: Hands) -> None:
    hands.set(poll=3600.0)
    for _ in range(3):
        await hands.add()
    await hands.redis.delete(hands.keys.wake)
    await hands.source().settle([], claim=1)
    await asyncio.wait_for(hands.source().wait(3600), LIMIT_S)


async def test_a_due_retry_ends_the_wait(hands: Hands) -> None:
    hands.set(backoff=60, backoff_max=60, poll=3600.0)
    await hands.add()
    source = hands.source()
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Failed(RuntimeError()))], claim=0)
    assert await fetched(source, 1) == []
    await hands.redis.delete(hands.keys.wake)
    await hands.clock.advance(60)
    await asyncio.wait_for(source.wait(3600), LIMIT_S)


@pytest.fixture
def endless_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker at rest is woken, or sleeps for longer than any test."""
    monkeypatch.setattr(wake_up, "LONGEST_BLOCK_S", 600.0)


@pytest.mark.usefixtures("endless_block")
async def test_a_retry_ends_a_wait_that_began_before_it_was_filed(hands: Hands) -> None:
    """An idle worker's pause is the backoff, not what is left of its own wait."""
    hands.set(backoff=0.01, poll=600)
    for path in ("/a", "/b"):
        await hands.add(path)
    source = hands.source()
    first, second = (await source.settle([], claim=2)).claims
    await hands.redis.delete(hands.keys.wake)
    waiting = asyncio.create_task(source.wait(600))
    await asyncio.sleep(0)
    await source.settle([Settled(first, Failed(ValueError()))], claim=1)
    await asyncio.wait_for(waiting, LIMIT_S)

    # Also when there is something else to fetch.
    await hands.add("/c")
    await hands.redis.delete(hands.keys.wake)
    waiting = asyncio.create_task(source.wait(600))
    await asyncio.sleep(0)
    reply = await source.settle([Settled(second, Failed(ValueError()))], claim=2)
    assert [claim.work.filepath for claim in reply.claims] == ["/c"]
    await asyncio.wait_for(waiting, LIMIT_S)


@pytest.mark.usefixtures("endless_block")
@pytest.mark.parametrize("room", [0, 1])
async def test_a_worker_without_room_tells_an_idle_one_of_a_retry(hands: Hands, room: int) -> None:
    hands.set(backoff=0.01, poll=600)
    await hands.add("/a")
    busy, idle = hands.source(), hands.source()
    (claim,) = (await busy.settle([], claim=1)).claims
    await idle.settle([], claim=1)
    if room:
        await hands.add("/b")
    await hands.redis.delete(hands.keys.wake)
    waiting = asyncio.create_task(idle.wait(600))
    await busy.settle([Settled(claim, Failed(ValueError()))], claim=room)
    await asyncio.wait_for(waiting, LIMIT_S)
    # It knows now, and waits no longer than that.
    assert not (await idle.settle([], claim=1)).claims
    await asyncio.wait_for(idle.wait(600), LIMIT_S)


async def test_jobs_fetched_by_a_call_whose_answer_was_lost_are_found(hands: Hands) -> None:
    """F-T4: they are in the list of a living worker, where no reaper looks."""
    source = hands.source()
    ids = [await hands.add() for _ in range(3)]
    held = (await source.settle([], claim=1)).claims
    made_deaf(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=2)

    reply = await source.settle([Settled(held[0], Done())], claim=5)

    assert [claim.id for claim in (*held, *reply.claims)] == ids
    assert await hands.lapse() == 2


async def test_what_was_found_goes_back_when_the_worker_leaves_first(hands: Hands) -> None:
    source = hands.source()
    id = await hands.add()
    made_deaf(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=1)
    await source.settle([], claim=0)
    await source.close()
    assert await hands.where(id) == ["waiting"]
    assert await hands.redis.scard(hands.keys.workers) == 0


async def test_the_cost_of_a_fetch_does_not_grow_with_what_waits(hands: Hands) -> None:
    """Counted in commands, not in seconds: the script calls the same ones over 10 and 10,000."""

    async def commands() -> int:
        before = await hands.redis.info("commandstats")
        await hands.source().settle([], claim=5)
        after = await hands.redis.info("commandstats")
        names = ("rpop", "lpush", "xadd", "zrangebyscore", "llen", "lrange")
        return sum(
            after.get(f"cmdstat_{name}", {"calls": 0})["calls"]
            - before.get(f"cmdstat_{name}", {"calls": 0})["calls"]
            for name in names
        )

    for _ in range(10):
        await hands.add()
    few = await commands()
    raws = [b'{"id":"%d","filepath":"/a"}' % number for number in range(10_000)]
    await hands.redis.lpush("jobqueue:low_priority", *raws)
    assert await commands() == few


async def test_a_worker_that_leaves_takes_its_name_along(hands: Hands) -> None:
    source = hands.source(worker="w1")
    await source.open()
    await source.close()
    assert await scripts.promote(hands.redis, hands.keys, now="", events_cap=100, most=10) == 0
    assert await hands.redis.keys("*worker*w1*") == []
    assert await hands.redis.scard(hands.keys.workers) == 0
