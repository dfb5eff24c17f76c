"""Jobs of workers that have gone, many at once: a few per call, and every one of them once."""

import pytest

from tests.bullmq.hands import Hands
from waystation.bullmq import Queue, upkeep


async def gone(hands: Hands, queue: Queue, many: int, *, alive: int = 0) -> list[str]:
    """Claim jobs and let the locks of most of them run out, as suspects that a look has found."""
    await queue.add_many([("work", {"n": n}) for n in range(many)])
    held = await hands.claim(many)
    assert not await hands.check_stalled()
    await hands.redis.delete(hands.keys.stalled_check)
    dead = [claim.id for claim in held[alive:]]
    await hands.redis.delete(*(hands.keys.of(id).lock for id in dead))
    return dead


async def test_a_call_puts_back_so_many_and_the_next_goes_on(hands: Hands, queue: Queue) -> None:
    dead = await gone(hands, queue, 25, alive=5)

    passes = [await hands.check_stalled(most=8) for _ in range(4)]

    assert [len(some) for some in passes] == [8, 8, 4, 0]
    assert sorted(id for some in passes for id in some) == sorted(dead)
    # The oldest is next, as if all of them had been put back at once.
    assert [claim.id for claim in await hands.claim(25)] == dead
    assert len(await hands.events("stalled")) == 20


async def test_nobody_is_suspected_before_all_are_back(hands: Hands, queue: Queue) -> None:
    await gone(hands, queue, 6)
    await hands.check_stalled(most=3)
    # Claimed since the look: without its lock it would be stalled at the look after the next.
    (late,) = await hands.claim(1)
    await hands.redis.delete(hands.keys.of(late.id).lock)

    assert len(await hands.check_stalled(most=3)) == 3
    assert await hands.ids("active") == [late.id]
    assert not await hands.check_stalled(most=3)


async def test_ids_without_a_job_are_no_work(hands: Hands, queue: Queue) -> None:
    dead = await gone(hands, queue, 10)
    await hands.redis.delete(*(hands.keys.of(id).job for id in dead[:6]))

    assert len(await hands.check_stalled(most=3)) == 3
    assert len(await hands.check_stalled(most=3)) == 1
    assert not await hands.ids("active")
    assert sorted(await hands.ids("wait")) == sorted(dead[6:])


async def test_one_pass_takes_as_many_calls_as_it_needs(
    hands: Hands, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RECOVERED_AT_ONCE", 7)
    dead = await gone(hands, queue, 30)
    found = await upkeep.recover_stalled(hands.store.hot, hands.keys)
    assert sorted(found) == sorted(dead)
    assert not await hands.ids("active")
    assert await hands.redis.exists(hands.keys.stalled_check)


@pytest.mark.parametrize("allowed", [0, 1, 3])
async def test_a_job_is_given_up_when_it_stalls_more_often_than_allowed(
    allowed: int, hands: Hands
) -> None:
    id = await hands.add()
    for _ in range(allowed):
        await hands.claim_one()
        await hands.lapse(max_stalled=allowed)
        assert "defa" not in await hands.hash(id)
    await hands.claim_one()
    await hands.lapse(max_stalled=allowed)
    assert (await hands.hash(id))["defa"] == "job stalled more than allowable limit"
