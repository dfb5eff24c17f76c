"""Jobs of workers that have gone, many at once: a few per call, and every one of them once."""

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq import Queue, upkeep


async def gone(harness: Harness, queue: Queue, many: int, *, alive: int = 0) -> list[str]:
    """Claim jobs and let the locks of most of them run out, as suspects that a look has found."""
    await queue.add_many([("work", {"n": n}) for n in range(many)])
    held = await harness.claim(many)
    assert not await harness.check_stalled()
    await harness.redis.delete(harness.keys.stalled_check)
    dead = [claim.id for claim in held[alive:]]
    await harness.redis.delete(*(harness.keys.of(id).lock for id in dead))
    return dead


async def test_a_call_puts_back_so_many_and_the_next_goes_on(
    harness: Harness, queue: Queue
) -> None:
    dead = await gone(harness, queue, 25, alive=5)

    passes = [await harness.check_stalled(most=8) for _ in range(4)]

    assert [len(some) for some in passes] == [8, 8, 4, 0]
    assert sorted(id for some in passes for id in some) == sorted(dead)
    # The oldest is next, as if all of them had been put back at once.
    assert [claim.id for claim in await harness.claim(25)] == dead
    assert len(await harness.events("stalled")) == 20


async def test_nobody_is_suspected_before_all_are_back(harness: Harness, queue: Queue) -> None:
    await gone(harness, queue, 6)
    await harness.check_stalled(most=3)
    # Claimed since the look: without its lock it would be stalled at the look after the next.
    (late,) = await harness.claim(1)
    await harness.redis.delete(harness.keys.of(late.id).lock)

    assert len(await harness.check_stalled(most=3)) == 3
    assert await harness.ids("active") == [late.id]
    assert not await harness.check_stalled(most=3)


async def test_ids_without_a_job_are_no_work(harness: Harness, queue: Queue) -> None:
    dead = await gone(harness, queue, 10)
    await harness.redis.delete(*(harness.keys.of(id).job for id in dead[:6]))

    assert len(await harness.check_stalled(most=3)) == 3
    assert len(await harness.check_stalled(most=3)) == 1
    assert not await harness.ids("active")
    assert sorted(await harness.ids("wait")) == sorted(dead[6:])


async def test_one_pass_takes_as_many_calls_as_it_needs(
    harness: Harness, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RECOVERED_AT_ONCE", 7)
    dead = await gone(harness, queue, 30)
    found = await upkeep.recover_stalled(harness.store.hot, harness.keys)
    assert sorted(found) == sorted(dead)
    assert not await harness.ids("active")
    assert await harness.redis.exists(harness.keys.stalled_check)


@pytest.mark.parametrize("allowed", [0, 1, 3])
async def test_a_job_is_given_up_when_it_stalls_more_often_than_allowed(
    allowed: int, harness: Harness
) -> None:
    id = await harness.add()
    for _ in range(allowed):
        await harness.claim_one()
        await harness.lapse(max_stalled=allowed)
        assert "defa" not in await harness.hash(id)
    await harness.claim_one()
    await harness.lapse(max_stalled=allowed)
    assert (await harness.hash(id))["defa"] == "job stalled more than allowable limit"
