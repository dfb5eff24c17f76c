"""The data model of options and backoffs, each statement as the behaviour it asks for.

Where a decision overrides the letter, the decided behaviour is tested and the docstring says so.
"""

import random

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq import Backoff
from waystation.bullmq.options import JobOptions, growing
from waystation.core.errors import InvalidOption

# --- options -------------------------------------------------------------------------------------


async def test_the_lower_number_runs_first(harness: Harness) -> None:
    """P-14, D-20, D-21, F-P2: by decision as in BullMQ, after what has no priority."""
    ten, one, none = [await harness.add(priority=number) for number in (10, 1, 0)]
    assert await harness.where(none) == ["wait"]
    assert await harness.where(one) == ["prioritized"]
    assert [claim.id for claim in await harness.claim(3)] == [none, one, ten]


async def test_a_delayed_job_waits_among_the_delayed(harness: Harness) -> None:
    """D-22, D-39: by decision its score is the due millisecond times 4096."""
    id = await harness.add(delay=5)
    assert await harness.where(id) == ["delayed"]
    score = await harness.redis.zscore(harness.keys.delayed, id)
    assert score == (harness.clock.now_ms() + 5000) * 4096


def test_a_job_is_tried_three_times_unless_told_otherwise() -> None:
    """D-23, F-D2: by decision with exponential pauses from a second."""
    assert JobOptions().attempts == 3
    assert JobOptions().backoff == Backoff("exponential", 1)
    for attempts in (0, -1):
        with pytest.raises(InvalidOption, match=f"attempts must be at least 1, got {attempts}"):
            JobOptions(attempts=attempts)


# --- backoff -------------------------------------------------------------------------------------


def pauses(rule: Backoff, attempts: range) -> list[int]:
    rising = growing(rule, 3_600_000)
    assert rising is not None
    return [rising.pause_ms(attempt, random.Random(0)) for attempt in attempts]


def test_a_fixed_pause_is_always_the_same() -> None:
    """D-30."""
    assert pauses(Backoff.fixed(0.7), range(1, 5)) == [700] * 4


def test_an_exponential_pause_doubles_up_to_an_hour() -> None:
    """D-31, D-32, F-D3: 1 s, 2 s, … 2048 s at the twelfth, an hour from the thirteenth on."""
    expected = [1000 * 2**n for n in range(12)] + [3_600_000] * 3
    assert pauses(Backoff.exponential(1), range(1, 16)) == expected


async def test_the_pauses_of_a_job_are_those_of_its_rule(harness: Harness) -> None:
    """D-31."""
    id = await harness.add(attempts=4, backoff=Backoff.exponential(1))
    delays: list[str] = []
    for pause in (1, 2, 4):
        await harness.fail(await harness.claim_one())
        delays.append((await harness.hash(id))["delay"])
        await harness.clock.advance(pause)
    assert delays == ["1000", "2000", "4000"]
