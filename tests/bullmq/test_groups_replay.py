"""The replay of a flood: who waits behind it, by the scripts and by the models beside them."""

import pytest

from benchmarks.groups_replay import Call, Capped, Line, RoundRobin, Stored, waits
from tests.bullmq.harness import Harness
from waystation.bullmq import Queue

SLOTS, RUN_S = 4, 1.5
QUIET = [Call(n, RUN_S, 10, f"tenant-{1 + n % 20}") for n in range(200)]
FLOOD = "tenant-0"
WHOLE = [Call(50, RUN_S, 10, FLOOD) for _ in range(600)]
SPLIT = [Call(50, RUN_S, 10, FLOOD, f"key-{n % 100}") for n in range(600)]


async def longest_s(flood: list[Call], line: Line) -> float:
    """How long a call of the quiet tenants waits at most, who could do with two of the slots."""
    found = await waits(QUIET + flood, SLOTS, line, FLOOD)
    assert sum(call.tenant != FLOOD for call, _ in found) == len(QUIET)
    return max(wait for call, wait in found if call.tenant != FLOOD)


@pytest.mark.parametrize("flood", [WHOLE, SPLIT], ids=["whole", "split"])
async def test_in_groups_one_job_of_a_flood_comes_before_at_most(
    flood: list[Call], queue: Queue, harness: Harness
) -> None:
    line = Stored(harness.store, queue, has_groups=True)
    assert await longest_s(flood, line) <= 2 * RUN_S


async def test_without_groups_all_of_it_comes_before(queue: Queue, harness: Harness) -> None:
    line = Stored(harness.store, queue, has_groups=False)
    assert await longest_s(WHOLE, line) > len(WHOLE) * RUN_S / SLOTS / 2


async def test_keys_that_take_turns_or_are_capped_help_until_they_are_split() -> None:
    for model in (RoundRobin, lambda: Capped(1)):
        assert await longest_s(WHOLE, model()) <= 2 * RUN_S
        assert await longest_s(SPLIT, model()) > 10 * RUN_S
