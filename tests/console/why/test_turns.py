"""How many turns `why` sees before a group is how many there are."""

import random
from collections.abc import AsyncIterator

import pytest

from tests.bullmq.harness import Harness, harness_on
from waystation.bullmq import Group, NewJob, Queue
from waystation.bullmq.options import JobOptions
from waystation.bullmq.redis import scripts
from waystation.console.why.of_groups import turns_before


@pytest.fixture
async def harness(redis_url: str) -> AsyncIterator[Harness]:
    async with harness_on(redis_url) as opened:
        yield opened


async def seen(harness: Harness, id: str) -> tuple[int, int | None]:
    standing = await scripts.standing(harness.store.hot, harness.keys, id=id)
    return standing.ahead, turns_before(standing.turns)


@pytest.mark.parametrize("seed", range(8))
async def test_who_is_before_a_group_has_a_turn_or_two_before_it(
    harness: Harness, seed: int
) -> None:
    dice = random.Random(seed)
    groups = [Group(name) for name in "abcdefg"]
    async with Queue(harness.keys.name, harness.store) as queue:
        await queue.add_many(
            [NewJob("send", None, JobOptions(group=each)) for each in [*groups, None] * 5]
        )
        await harness.claim(dice.randrange(1, 20))
        group = dice.choice(groups)
        job = next(
            each for each in await queue.get_jobs("waiting", newest_first=False)
            if each.group == group
        )  # fmt: skip
        ahead, turns = await seen(harness, job.id)
        assert ahead == 0

        before = 0
        while [claim.work.id for claim in await harness.claim(1)] != [job.id]:
            before += 1

    # Who is before it has one turn, and a second where both stand equal after that.
    assert turns is not None
    assert turns <= before <= 2 * turns


async def test_a_key_of_a_parent_waits_for_a_round_with_each_other_key(harness: Harness) -> None:
    keys = [Group(name, parent="acme") for name in ("1", "2", "3")]
    async with Queue(harness.keys.name, harness.store) as queue:
        ids = [(await queue.add("send", group=each)).id for each in ("bell", "cord", *keys)]

        # The parent is the first of three, and its last key has two before it.
        assert [await seen(harness, id) for id in ids] == [(0, 1), (0, 2), (0, 0), (0, 3), (0, 6)]


async def test_a_group_that_takes_no_turns_has_no_number(harness: Harness) -> None:
    async with Queue(harness.keys.name, harness.store) as queue:
        await queue.groups.pause("acme")
        job = await queue.add("send", group="acme")
        await harness.claim(1)

        assert await seen(harness, job.id) == (0, None)
