"""Outcomes that are settled in one call: each for itself, however many come together."""

import random

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq.job import Job
from waystation.bullmq.queue import Queue
from waystation.core.errors import LeaseLost, NotFound, WrongState
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Claim, Settled


async def claimed(harness: Harness, many: int) -> list[Claim[Job]]:
    for number in range(many):
        await harness.add({"n": number}, attempts=1)
    return await harness.claim(many)


@pytest.mark.parametrize("seed", range(6))
async def test_any_part_of_what_is_active_leaves_in_one_call_and_the_rest_keeps_its_order(
    harness: Harness, seed: int
) -> None:
    chance = random.Random(seed)
    held = await claimed(harness, 40)
    before = await harness.ids("active")
    ended = chance.sample(held, chance.randint(2, 30))

    reply = await harness.worker.settle([Settled(each, Done(None)) for each in ended], claim=0)

    gone = {each.id for each in ended}
    assert not reply.refused
    assert await harness.ids("active") == [id for id in before if id not in gone]
    assert set(await harness.ids("completed")) == gone
    assert [event["jobId"] for event in await harness.events("completed")] == [e.id for e in ended]


@pytest.mark.parametrize("seed", range(6))
async def test_outcomes_of_all_kinds_go_together(harness: Harness, seed: int) -> None:
    chance = random.Random(seed)
    held = await claimed(harness, 30)
    chance.shuffle(held)
    outcomes: list[Outcome] = [Done("yes"), Done("yes"), Failed(RuntimeError("no")), Returned()]
    settled = [Settled(each, chance.choice(outcomes)) for each in held[:20]]

    reply = await harness.worker.settle(settled, claim=0)

    assert not reply.refused
    wanted: dict[type, list[str]] = {Done: ["completed"], Failed: ["failed"], Returned: ["wait"]}
    for each in settled:
        assert await harness.where(each.claim.id) == wanted[type(each.outcome)]
    for each in held[20:]:
        assert await harness.where(each.id) == ["active"]


@pytest.mark.parametrize("has_children", [False, True])
async def test_one_that_may_not_end_takes_none_of_its_batch_along(
    harness: Harness, has_children: bool
) -> None:
    held = await claimed(harness, 8)
    await harness.redis.set(harness.keys.of(held[1].id).lock, "somebody else")
    await harness.redis.delete(harness.keys.of(held[2].id).lock)
    await harness.redis.delete(harness.keys.of(held[3].id).job)
    await harness.redis.lrem(harness.keys.active, 1, held[4].id)
    if has_children:
        await harness.redis.sadd(f"{harness.keys.of(held[5].id).job}:dependencies", "bull:other:1")

    reply = await harness.worker.settle([Settled(each, Done(None)) for each in held], claim=0)

    assert {each.claim.id: type(each.reason) for each in reply.refused} == {
        held[1].id: LeaseLost,
        held[2].id: LeaseLost,
        held[3].id: NotFound,
        held[4].id: WrongState,
    }
    ended = [held[0].id, held[5].id, held[6].id, held[7].id]
    failed = [held[5].id] if has_children else []
    assert await harness.ids("completed") == [id for id in ended if id not in failed]
    assert await harness.ids("failed") == failed
    assert set(await harness.ids("active")) == {held[1].id, held[2].id, held[3].id}


async def test_an_outcome_that_is_there_twice_counts_once(harness: Harness) -> None:
    held = await claimed(harness, 3)
    twice = [Settled(each, Done(None)) for each in (*held, held[1])]

    reply = await harness.worker.settle(twice, claim=0)

    assert [each.claim.id for each in reply.refused] == [held[1].id]
    assert len(await harness.events("completed")) == 3
    assert not await harness.ids("active")


async def test_a_batch_of_thousands_is_settled_in_one_call(harness: Harness, queue: Queue) -> None:
    await queue.add_many([("work", None)] * 5000)
    held = await harness.claim(5000)
    random.Random(1).shuffle(held)
    reply = await harness.worker.settle([Settled(each, Done(None)) for each in held], claim=10)
    assert not reply.refused
    assert await harness.redis.zcard(harness.keys.completed) == 5000
