"""While a group is busy, no other is served more than it, by more than one largest cost of each.

Limits are never exceeded, and nobody starves, whatever becomes of workers and their answers.
"""

from collections.abc import AsyncIterator

import pytest

from tests.bullmq.accounts import WEIGHTS
from tests.bullmq.harness import harness_on
from tests.bullmq.shop import Shop
from tests.support.size import IS_FULL, size
from waystation.bullmq.queue import Queue

pytestmark = [pytest.mark.full, pytest.mark.timeout(900 if IS_FULL else 120)]

JOBS = size(400, full=50_000)
"""Of each walk; there are twenty of them in `make long`, so a million in all."""
ROUNDING = 1e-9


@pytest.fixture(params=range(size(3, full=10)))
async def shop(redis_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with harness_on(redis_url) as harness, Queue(harness.keys.name, harness.store) as queue:
        opened = Shop(harness, queue, request.param)
        await opened.open()
        yield opened


async def test_busy_groups_are_served_alike(shop: Shop) -> None:
    await walk(shop, has_limits=False)

    assert shop.fairness.worst <= 1 + ROUNDING


async def test_limits_are_never_exceeded_and_nobody_starves(shop: Shop) -> None:
    await walk(shop, has_limits=True)

    # Those at a limit are not busy; for all others the first law holds.
    assert shop.fairness.worst <= 1 + ROUNDING


async def walk(shop: Shop, *, has_limits: bool) -> None:
    """Do something at random until there were jobs enough, then see all of them done."""
    at_once = most = size(20, full=200)
    steps = 0
    for path in WEIGHTS:
        await shop.add(path, at_once)
    while shop.added < JOBS:
        if steps % 50 == 0:
            # At times hardly anything waits, and turns begin anew.
            most = shop.random.choice((3, 20 * at_once, 20 * at_once))
        steps += 1
        await step(shop, at_once, most, has_limits=has_limits)
        await shop.look()
        if steps % size(1, full=100) == 0:
            await shop.check()
    await shop.finish()

    assert shop.started.keys() == WEIGHTS.keys()
    # A queue that is emptied keeps nothing of its groups but what ends by itself.
    assert await shop.keys_of_groups() - {"groups:freed"} == {"groups:settings"}


async def step(shop: Shop, at_once: int, most: int, *, has_limits: bool) -> None:
    match shop.random.random():
        case chance if chance < 0.2:
            if shop.backlog < most:
                await shop.add(shop.any_group(), min(most, 2 * at_once))
        case chance if chance < 0.5:
            await shop.claim(shop.random.choice((1, 1, 3, at_once)))
        case chance if chance < 0.8:
            await shop.settle(shop.random.choice((1, 3, at_once)))
        case chance if chance < 0.82:
            await shop.lose_an_answer(3)
        case chance if chance < 0.84:
            await shop.die()
        case chance if chance < 0.86:
            await shop.put_back_by_another()
        case chance if chance < 0.88:
            await shop.remove()
        case _ if not has_limits:
            await shop.pass_time()
        case chance if chance < 0.91:
            await shop.limit()
        case chance if chance < 0.93:
            await shop.lift()
        case chance if chance < 0.94:
            await shop.pause()
        case chance if chance < 0.96:
            await shop.resume()
        case _:
            await shop.pass_time()
