"""What if nobody comes back."""

import asyncio
import json
from typing import Any

import pytest

from tests.files.harness import Harness, harness_on
from waystation.core.errors import StoreUnreachable
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.core.telemetry.metrics import Metrics
from waystation.files.options import Layout, ReaperOptions
from waystation.files.queue import Queue
from waystation.files.redis import lists
from waystation.files.upkeep import Reaper


async def test_the_work_of_a_silent_worker_goes_back_to_where_it_came_from(
    harness: Harness,
) -> None:
    """T-32: in one step, to the origin queue, with one more failure. F-T11: it counts as one."""
    id = await harness.add(priority="high")
    source = harness.source()
    await source.settle([], claim=1)
    await harness.silence()
    assert await harness.reaper().reap() == 1
    (raw,) = await harness.redis.lrange("jobqueue:high_priority", 0, -1)
    assert (json.loads(raw)["id"], json.loads(raw)["retries"]) == (id, 1)
    assert await harness.redis.llen(harness.keys.of(source.worker).processing) == 0


async def test_a_worker_with_a_heartbeat_is_left_alone(harness: Harness) -> None:
    """T-31, F-T2, F-T9: whatever is in its list, from the fetch on and however long."""
    id = await harness.add()
    await harness.source().settle([], claim=1)
    assert await harness.reaper().reap() == 0
    assert await harness.where(id) == ["active"]


async def test_a_heartbeat_that_comes_back_in_time_wins(harness: Harness) -> None:
    """T-32: the script looks again, so a worker that beats after the look keeps its work."""
    id = await harness.add()
    source = harness.source(worker="w1")
    await source.settle([], claim=1)
    await harness.silence()
    redis = harness.redis

    class BeatsInBetween:
        async def execute_command(self, *args: object) -> object:
            answer = await redis.execute_command(*args)
            if args[0] == "LRANGE":
                await source.open()
            return answer

    reaper = Reaper(BeatsInBetween(), harness.keys, harness.options)
    assert await reaper.reap() == 0
    assert await harness.where(id) == ["active"]


async def test_what_was_abandoned_too_often_ends_as_a_dead_letter(harness: Harness) -> None:
    """T-32, F-T11: a file that kills its worker does not go round for ever."""
    harness.set(max_retries=2)
    id = await harness.add()
    for _ in range(3):
        assert (await harness.source().settle([], claim=1)).claims
        await harness.lapse()
    assert await harness.where(id) == ["failed"]
    meta = json.loads(await harness.redis.hget(harness.keys.dead_letter_meta, id))
    assert meta["reason"] == "ABANDONED"


async def test_every_worker_is_reached_though_a_pass_is_cut_short(harness: Harness) -> None:
    """T-28: by SSCAN over the registry, COUNT at a time. T-29: a pass ends with its budget.
    F-T10: the next one goes on where it stopped.
    """
    workers = [f"w{number}" for number in range(600)]
    await harness.redis.sadd(harness.keys.workers, *workers)
    for worker in workers:
        raw = b'{"id":"%s","filepath":"/a"}' % worker.encode()
        await harness.redis.lpush(harness.keys.of(worker).processing, raw)
    time = iter(range(1_000_000))
    options = ReaperOptions(count=10, budget=25, page_delay=0)
    # Every look at the timer takes a second, so that a pass reaches some workers only.
    reaper = harness.reaper(options=options, timer=lambda: float(next(time)))
    first = await reaper.reap()
    assert 0 < first < 600
    passes = 1
    while await harness.redis.scard(harness.keys.workers):
        await reaper.reap()
        passes += 1
        assert passes < 200
    assert await harness.redis.llen(harness.keys.queues[1]) == 600


async def test_a_worker_is_lost_once_and_when_nothing_of_it_is_left(harness: Harness) -> None:
    await harness.redis.sadd(harness.keys.workers, "w")
    raws = [b'{"id":"%d","filepath":"/a"}' % number for number in range(25)]
    await harness.redis.lpush(harness.keys.of("w").processing, *raws)
    time = iter(range(1_000))
    # Its first look at the timer takes so long that a pass takes one page of the list.
    reaper = harness.reaper(
        options=ReaperOptions(count=10, budget=1), timer=lambda: next(time) * 9.0
    )
    lost: list[int] = []
    while await harness.redis.exists(harness.keys.of("w").processing):
        await reaper.reap()
        lost.append([event["event"] for event in await harness.events()].count("lost"))
    assert lost == [0, 0, 1]


async def test_pages_are_apart_by_the_delay_give_or_take_a_half(harness: Harness) -> None:
    """T-30."""
    await harness.redis.sadd(harness.keys.workers, *[f"w{number}" for number in range(300)])
    asked: list[tuple[float, float]] = []

    def dice(low: float, high: float) -> float:
        asked.append((low, high))
        return low

    options = ReaperOptions(count=50, page_delay=0.001, budget=30)
    await harness.reaper(options=options, uniform=dice).reap()
    assert asked
    assert set(asked) == {(0.5, 1.5)}


async def test_what_is_taken_back_is_counted(harness: Harness) -> None:
    """T-33: reaper_jobs_moved_total, F-T17: under both names, and the failure with its reason."""
    harness.set(max_retries=0)
    for _ in range(3):
        await harness.add()
    await harness.source().settle([], claim=3)
    await harness.silence()
    metrics = Metrics()
    await harness.reaper(metrics=metrics).reap()
    page = metrics.expose().decode()
    queue = 'queue="jobqueue:low_priority"'
    assert "reaper_jobs_moved_total 3.0" in page
    assert "reaper_recovered_total 3.0" in page
    assert f'jobs_failed_total{{{queue},reason="ABANDONED"}} 3.0' in page
    assert f"jobs_dead_letter_total{{{queue}}} 3.0" in page


async def test_two_reapers_move_everything_once(harness: Harness) -> None:
    ids = [await harness.add() for _ in range(50)]
    await harness.source().settle([], claim=50)
    await harness.silence()
    moved = await asyncio.gather(*(harness.reaper().reap() for _ in range(4)))
    assert sum(moved) == 50
    assert await harness.redis.llen(harness.keys.queues[1]) == len(ids)


async def test_a_list_of_a_worker_nobody_registered_is_found_and_taken_back(
    harness: Harness,
) -> None:
    """What workers of another program leave behind: a list, and no entry in the registry."""
    left = harness.keys.of("host-1-0").processing
    await harness.redis.lpush(left, b'{"id":"7","filepath":"/a","priority":"high"}')
    assert await Queue(harness.store).orphans() == {left: 1}
    reaper = harness.reaper()
    # The first pass registers the worker, and the next one finds it silent.
    assert await reaper.reap() == 0
    assert (await Queue(harness.store).lengths())[left] == 1
    assert await Queue(harness.store).orphans() == {}
    assert await reaper.reap() == 1
    (raw,) = await harness.redis.lrange("jobqueue:high_priority", 0, -1)
    assert (json.loads(raw)["id"], json.loads(raw)["retries"]) == ("7", 1)
    assert await harness.redis.exists(left, harness.keys.workers) == 0


async def test_a_worker_nobody_registered_keeps_its_list_while_its_heart_beats(
    harness: Harness,
) -> None:
    foreign = harness.keys.of("host-1-0")
    await harness.redis.lpush(foreign.processing, b'{"id":"7","filepath":"/a"}')
    await harness.redis.set(foreign.heartbeat, "1", ex=600)
    reaper = harness.reaper()
    assert [await reaper.reap() for _ in range(3)] == [0, 0, 0]
    assert await harness.redis.llen(foreign.processing) == 1


async def test_only_what_holds_jobs_is_taken_for_the_list_of_a_worker(redis_url: str) -> None:
    """A pattern may be as wide as to fit the line's own lists, and those of others."""
    layout = Layout(processing_list_pattern="jobqueue:%s")
    async with harness_on(redis_url, layout) as harness:
        job = b'{"id":"7","filepath":"/a"}'
        for key in (*harness.keys.queues, harness.keys.completed, harness.keys.dead_letter):
            await harness.redis.lpush(key, job)
        await harness.redis.lpush("jobqueue:shopping", b"milk")
        await harness.redis.lpush(b"jobqueue:\xff", job)
        await harness.redis.sadd("jobqueue:basket", job)
        await harness.reaper().reap()
        assert await harness.redis.smembers(harness.keys.workers) == set()
        assert await Queue(harness.store, layout=layout).orphans() == {"jobqueue:shopping": 1}


async def test_one_process_looks_at_the_keys_a_part_at_a_time(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database of others is large, and a fleet must not walk it once for each worker."""
    monkeypatch.setattr(lists, "_KEYS_A_STEP", 10)
    await harness.redis.mset({f"other:{number}": "x" for number in range(1_000)})
    asked: list[str] = []
    redis = harness.redis

    class Counted:
        async def execute_command(self, *args: Any) -> Any:
            asked.append(args[0])
            return await redis.execute_command(*args)

    async def scans(reaper: Reaper) -> int:
        asked.clear()
        await reaper.reap()
        return asked.count("SCAN")

    first, second = (harness.reaper(client=Counted()) for _ in range(2))
    assert [await scans(first), await scans(second)] == [10, 0]
    passes = 1
    while (steps := await scans(first)) and passes < 100:
        assert steps <= 10
        passes += 1
    assert 1 < passes < 100
    assert await scans(second) == 0
    assert 0 < await harness.redis.ttl(harness.keys.orphans) <= 30
    await harness.redis.flushdb()


async def test_a_worker_that_comes_back_from_the_dead_goes_on(harness: Harness) -> None:
    first = await harness.add()
    source = harness.source()
    (stale,) = (await source.settle([], claim=1)).claims
    await harness.lapse()
    assert await harness.redis.scard(harness.keys.workers) == 0
    (again,) = (await source.settle([], claim=1)).claims
    assert (again.id, again.work.retries) == (first, 1)
    reply = await source.settle([Settled(stale, Done()), Settled(again, Done())], claim=0)
    assert [each.claim for each in reply.refused] == [stale]
    assert await harness.redis.scard(harness.keys.workers) == 1


async def test_a_server_in_trouble_does_not_make_a_worker_dead(harness: Harness) -> None:
    await harness.add()
    await harness.source().settle([], claim=1)

    class Troubled:
        async def execute_command(self, *args: object) -> object:
            if args[0] == "EXISTS":
                raise ConnectionError("away")
            return await harness.redis.execute_command(*args)

    with pytest.raises(StoreUnreachable):
        await Reaper(Troubled(), harness.keys).reap()
    assert await harness.redis.llen(harness.keys.queues[1]) == 0
