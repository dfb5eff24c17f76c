"""While a group is busy, no other is served more than it, by more than one largest cost of each."""

import itertools
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.bullmq.harness import Harness, harness_on
from waystation.bullmq.job import Job
from waystation.bullmq.options import Group
from waystation.bullmq.queue import Queue
from waystation.core.codec import as_text
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Claim, Settled

UNGROUPED = ""


class Account:
    """What each group was served over its weight, and how far others got ahead of a busy one.

    That is asked of every stretch of time in which it was busy, and holds whatever the others do:
    so two that are both busy differ by no more, and whoever comes and goes gains nothing by it.
    """

    def __init__(self, weights: dict[str, float]) -> None:
        self.weights = weights
        self.waiting: dict[str, set[str]] = defaultdict(set)
        self.served: dict[str, float] = defaultdict(float)
        self.largest: dict[str, float] = defaultdict(float)
        self._lowest: dict[tuple[str, str], float] = {}
        self.worst = 0.0

    def waits(self, group: str, id: str, cost: float) -> None:
        self.waiting[group].add(id)
        self.largest[group] = max(self.largest[group], cost / self.weights[group])
        self._look()

    def starts(self, group: str, id: str, cost: float) -> None:
        self.served[group] += cost / self.weights[group]
        # It was busy up to this start, which still counts.
        self._look()
        self.waiting[group].discard(id)
        self._look()

    def _look(self) -> None:
        for busy, other in itertools.permutations(self.weights, 2):
            if not self.waiting[busy]:
                self._lowest.pop((busy, other), None)
                continue
            ahead = self.served[other] - self.served[busy]
            lowest = self._lowest[busy, other] = min(ahead, self._lowest.get((busy, other), ahead))
            bound = self.largest[busy] + self.largest[other]
            self.worst = max(self.worst, (ahead - lowest) / bound)


class Shop:
    """A queue with groups at which a test adds, claims and settles at random."""

    def __init__(self, harness: Harness, seed: int, weights: dict[str, float]) -> None:
        self.harness = harness
        self.random = random.Random(seed)
        self.account = Account(weights)
        self.held: list[tuple[Claim[Job], str]] = []
        self.of: dict[str, tuple[str, float]] = {}

    async def add(self, most: int = 30) -> None:
        group = self.random.choice(list(self.account.weights))
        for _ in range(self.random.randint(1, most)):
            cost = 1 if group == UNGROUPED else self.random.choice((1, 1, 2, 3.5, 20))
            options: dict[str, Any] = {}
            if group != UNGROUPED:
                parent, _, own = group.rpartition("/")
                priority = self.random.choice((0, 0, 0, 3))
                options = {"group": Group(own, parent=parent or None, cost=cost, priority=priority)}
            id = await self.harness.add(attempts=3, backoff=None, **options)
            self.of[id] = group, cost
            self.account.waits(group, id, cost)

    async def claim(self, many: int) -> int:
        claims = await self.harness.claim(many)
        for claim in claims:
            group, cost = self.of[claim.id]
            self.account.starts(group, claim.id, cost)
            self.held.append((claim, group))
        return len(claims)

    async def settle(self) -> None:
        if not self.held:
            return
        claim, group = self.held.pop(self.random.randrange(len(self.held)))
        outcome: Outcome = self.random.choice(
            (Done(1), Done(1), Failed(ValueError("no")), Returned())
        )
        await self.harness.worker.settle([Settled(claim, outcome)], claim=0)
        if await self.harness.worker._queue.client.execute_command(  # pyright: ignore[reportPrivateUsage]
            "ZSCORE", self.harness.keys.grouped, claim.id
        ) is not None or (group == UNGROUPED and claim.id in await self.harness.ids("wait")):
            self.account.waits(group, claim.id, self.of[claim.id][1])


@pytest.fixture(params=range(4))
async def shop(redis_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    weights = {UNGROUPED: 1.0, "acme": 1.0, "bell": 2.0, "cord": 0.5, "dune": 1.0}
    async with harness_on(redis_url) as harness, Queue(harness.keys.name, harness.store) as queue:
        for group, weight in weights.items():
            if group:
                await queue.groups.set(group, weight=weight)
        yield Shop(harness, request.param, weights)


async def test_busy_groups_are_served_alike(shop: Shop) -> None:
    for _ in range(600):
        match shop.random.random():
            case chance if chance < 0.15:
                await shop.add()
            case chance if chance < 0.6:
                await shop.claim(shop.random.choice((1, 1, 3, 20)))
            case _:
                await shop.settle()

    assert shop.account.worst <= 1
    assert sum(shop.account.served.values()) > 500
    # A queue that is emptied keeps nothing of its groups.
    while shop.held or await shop.claim(50):
        while shop.held:
            claim, _ = shop.held.pop()
            await shop.harness.complete(claim)
    await shop.claim(1)
    assert await keys_of_groups(shop.harness) == {"groups:settings"}


async def keys_of_groups(harness: Harness) -> set[str]:
    base = harness.keys.base
    keys = await harness.redis.keys(f"{base}group*")
    return {as_text(key).removeprefix(base) for key in keys}
