"""What would go wrong if the protocol contracts were taken at their word."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.bullmq.contracts import LEASE_MS, Held, System
from tests.bullmq.harness import harness_on
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.durations import seconds
from waystation.core.errors import StoreUnreachable
from waystation.core.runtime.worker import WorkerOptions


@pytest.fixture
async def system(redis_url: str) -> AsyncIterator[System]:
    """A queue that is really called `{queue}`, as the contracts assume."""
    async with harness_on(redis_url, "{queue}") as harness:
        yield System(harness)


async def claimed(system: System) -> Held:
    held = await system.claim()
    assert held is not None
    return held


async def crash(system: System, held: Held) -> None:
    """The worker is gone: its lock runs out, and somebody notices."""
    await system.harness.redis.delete(system.harness.keys.of(held.id).lock)
    await system.check_stalled()


async def test_a_prioritized_job_is_not_lost_when_it_is_claimed(system: System) -> None:
    """F-P1: the script stops between taking the id and holding it."""
    id = await system.add(priority=1)
    await system.claim()
    assert await system.harness.where(id) == ["active"]


async def test_among_equals_the_first_in_is_the_first_out(system: System) -> None:
    """F-P2: equal scores are ordered as text, so 10 comes before 2.

    By decision the order is BullMQ's: what has no priority first, then the lower number.
    """
    ids = [await system.add(priority=5) for _ in range(12)]
    assert [(await claimed(system)).id for _ in ids] == ids


async def test_a_prioritized_job_is_tried_again_by_its_priority(system: System) -> None:
    """F-P4: a list command on a sorted set, after the job has been taken out."""
    id = await system.add(priority=5, attempts=3, backoff=None)
    await system.add(priority=6)
    await system.fail(await claimed(system))
    assert await system.harness.where(id) == ["prioritized"]


async def test_a_job_that_kills_its_workers_fails_with_a_reason(system: System) -> None:
    """F-P5: nobody compares the count with the limit, so the job goes round for ever."""
    id = await system.add(attempts=3)
    for _ in range(10):
        if held := await system.claim():
            await crash(system, held)
    assert await system.harness.where(id) == ["failed"]
    assert "stalled" in (await system.harness.hash(id))["failedReason"]


async def test_an_active_id_whose_job_is_gone_leaves_the_active_list(system: System) -> None:
    """F-P5: the script passes over it, now and every time."""
    await system.add()
    held = await claimed(system)
    await system.harness.redis.delete(system.harness.keys.of(held.id).job)
    await crash(system, held)
    assert await system.harness.ids("active") == []


@pytest.mark.parametrize("remove", [True, 0])
async def test_a_job_that_is_not_to_be_kept_leaves_nothing(system: System, remove: Any) -> None:
    """F-P6: the id stays behind, or the hash does."""
    id = await system.add(remove_on_complete=remove)
    await system.harness.call("RPUSH", system.harness.keys.of(id).logs, "a line")
    assert await system.complete(await claimed(system))
    assert await system.harness.ids("completed") == []
    assert await system.harness.redis.keys(f"{system.harness.keys.base}{id}*") == []


async def test_ending_a_job_that_is_not_there_makes_no_ghost(system: System) -> None:
    """F-P7."""
    assert not await system.complete(Held("404", "token"))
    assert await system.harness.hash("404") == {}


async def test_a_delayed_job_runs_when_it_is_due_and_not_before(system: System) -> None:
    """F-P8: submission takes no notice of the delay."""
    id = await system.add(delay=1)
    assert await system.claim() is None
    await system.harness.clock.advance(1.0)
    assert (await claimed(system)).id == id


async def test_progress_of_a_removed_job_makes_no_ghost(system: System) -> None:
    """F-P9: the hash comes back with one field in it."""
    id = await system.add()
    await system.harness.redis.delete(system.harness.keys.of(id).job)
    assert not await system.progress(id, 50)
    assert await system.harness.hash(id) == {}


@pytest.mark.parametrize("commands", range(6))
async def test_a_producer_that_dies_half_way_leaves_a_whole_job_or_none(
    redis_url: str, commands: int
) -> None:
    """F-P11: four commands, and a crash between any two of them."""
    assert await _is_whole_after(redis_url, commands)


async def _is_whole_after(redis_url: str, commands: int) -> bool:
    async with harness_on(redis_url, "{queue}") as harness:
        await harness.call("FLUSHDB")
        client = harness.store.hot
        harness.store.__dict__["hot"] = Cut(client, after=commands)
        with contextlib.suppress(StoreUnreachable):
            await System(harness).add()
        harness.store.__dict__["hot"] = client
        waits = await harness.ids("wait")
        announced = [event["jobId"] for event in await harness.events("waiting")]
        stored = [id for id in ("1",) if await harness.hash(id)]
        return waits == announced == stored


class Cut:
    """A connection that breaks after so many commands."""

    def __init__(self, client: Any, *, after: int) -> None:
        self._client = client
        self._left = after

    async def execute_command(self, *command: Any) -> Any:
        if self._left == 0:
            raise StoreUnreachable("cut")
        self._left -= 1
        return await self._client.execute_command(*command)


def test_one_missed_heartbeat_does_not_cost_the_lock() -> None:
    """F-P12: at half the time the second beat comes when the lock has just run out."""
    options = WorkerOptions()
    assert 2 * seconds(options.renew or seconds(options.lease) / 3) < LEASE_MS / 1000


async def test_many_checkers_look_once_in_an_interval(system: System) -> None:
    """F-P13: every worker reads the whole list, every time."""
    await system.add()
    await claimed(system)
    await system.harness.call("CONFIG", "RESETSTAT")
    for _ in range(10):
        await system.harness.check_stalled()
    reads: dict[str, Any] = await system.harness.redis.info("commandstats")
    assert reads["cmdstat_lrange"]["calls"] == 1


@pytest.mark.parametrize("name", ["mail", "{mail}"])
async def test_every_key_is_the_queues_own(redis_url: str, name: str) -> None:
    """P-7, F-P14, F-P16: the text `bull:{queue}:` stands in the scripts.

    By decision braces are a hash tag that the user writes, and none is added.
    """
    async with harness_on(redis_url, name) as harness:
        system = System(harness)
        await system.add()
        await claimed(system)
        assert all(key.startswith(f"bull:{name}:") for key in await harness.everything())
        assert await harness.redis.exists(f"bull:{name}:1:lock") == 1


def test_braces_are_not_added_to_what_node_calls_its_keys() -> None:
    """F-P14."""
    assert QueueKeys("mail").wait == "bull:mail:wait"


async def test_jobs_of_a_bullmq_producer_are_taken_in_their_order(system: System) -> None:
    """F-P15: BullMQ pushes left and takes right; taking left is last in, first out."""
    ids = [await system.harness.add() for _ in range(3)]
    assert [(await claimed(system)).id for _ in ids] == ids


async def test_a_bullmq_worker_finds_our_delayed_jobs_when_they_are_due(system: System) -> None:
    """F-P15: BullMQ reads scores as milliseconds times 4096; plain ones look long overdue."""
    id = await system.add(attempts=2, backoff=60)
    await system.fail(await claimed(system))
    score = await system.harness.redis.zscore(system.harness.keys.delayed, id)
    assert score is not None
    assert score // 4096 == system.harness.clock.now_ms() + 60_000


async def test_an_id_that_comes_up_again_does_not_take_the_lock_from_its_holder(
    system: System,
) -> None:
    """F-P17: the lock is set whoever holds it."""
    id = await system.add()
    holder = await claimed(system)
    await system.harness.call("RPUSH", system.harness.keys.wait, id)

    assert await system.claim() is None
    assert await system.extend(holder)
    assert await system.complete(holder)
    assert await system.harness.where(id) == ["completed"]


async def test_no_more_jobs_start_than_the_limit_allows(system: System) -> None:
    """F-P18: the limiter is three dots."""
    await system.harness.call("HSET", system.harness.keys.meta, "max", 2, "duration", 60_000)
    for _ in range(3):
        await system.add()
    assert [await system.claim() is not None for _ in range(3)] == [True, True, False]
    assert 0 < await system.harness.call("PTTL", system.harness.keys.limiter) <= 60_000
