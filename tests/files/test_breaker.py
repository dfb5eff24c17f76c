"""A queue whose work fails because of the machine is left alone for a while."""

from typing import Any

import pytest

from tests.files.harness import Harness
from waystation.core.breaker import BreakerOptions, State
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.telemetry.metrics import Metrics
from waystation.files.claims import FileSource
from waystation.files.job import Job
from waystation.files.metrics import Meter

OPTIONS = BreakerOptions(failure_threshold=0.5, min_samples=4, window_s=60, cooldown_s=30)
AWAY = OSError(5, "input/output error")


@pytest.fixture
async def source(harness: Harness) -> FileSource:
    harness.set(max_retries=100)
    for _ in range(30):
        await harness.add()
    return harness.source(breaker=OPTIONS)


async def fetch(source: FileSource, count: int = 1) -> list[Claim[Job]]:
    return list((await source.settle([], claim=count)).claims)


async def end(source: FileSource, claims: list[Claim[Job]], outcome: Outcome) -> None:
    await source.settle([Settled(claim, outcome) for claim in claims], claim=0)


def state(source: FileSource) -> State:
    breaker = source.planner.breakers[1]
    assert breaker
    return breaker.state


async def test_every_transition(harness: Harness, source: FileSource) -> None:
    """T-34: a rate at the threshold, with enough samples, opens it. T-35: and so on round."""
    await end(source, await fetch(source, 2), Done())
    await end(source, await fetch(source), Failed(AWAY))
    assert state(source) is State.CLOSED
    await end(source, await fetch(source), Failed(AWAY))
    assert state(source) is State.OPEN
    assert await fetch(source, 5) == []

    await harness.clock.advance(30)
    probe = await fetch(source, 5)
    assert (len(probe), state(source)) == (1, State.HALF_OPEN)
    assert await fetch(source, 5) == []
    await end(source, probe, Failed(AWAY))
    assert state(source) is State.OPEN

    await harness.clock.advance(30)
    await end(source, await fetch(source, 5), Done())
    assert state(source) is State.CLOSED
    assert len(await fetch(source, 5)) == 5


async def test_an_empty_queue_in_half_open_does_not_block_for_ever(harness: Harness) -> None:
    """F-T5: a probe that finds no job gives its permit back."""
    harness.set(max_retries=100, backoff=3600, backoff_max=3600)
    for _ in range(4):
        await harness.add()
    source = harness.source(breaker=OPTIONS)
    await end(source, await fetch(source, 4), Failed(AWAY))
    await harness.clock.advance(30)
    for _ in range(3):
        assert await fetch(source, 5) == []
    assert state(source) is State.HALF_OPEN

    await harness.add()
    await end(source, await fetch(source, 5), Done())
    assert state(source) is State.CLOSED


async def test_old_failures_do_not_open_it_again(harness: Harness, source: FileSource) -> None:
    """F-T6: the window begins anew when the breaker closes."""
    await end(source, await fetch(source, 4), Failed(AWAY))
    await harness.clock.advance(30)
    await end(source, await fetch(source), Done())
    await end(source, await fetch(source), Failed(AWAY))
    assert state(source) is State.CLOSED


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "x"), PermissionError(13, "x"), ValueError()]
)
async def test_bad_files_do_not_open_it(source: FileSource, error: Exception) -> None:
    """F-T6: one poison batch does not stop all work."""
    await end(source, await fetch(source, 20), Failed(error))
    assert state(source) is State.CLOSED


async def test_each_queue_has_its_own_breaker_and_its_own_gauge(
    harness: Harness, source: FileSource
) -> None:
    """F-T17, T-40: 0 closed, 1 half-open, 2 open, for each queue."""
    metrics = Metrics()
    metered = harness.source(breaker=OPTIONS, meter=Meter(metrics, harness.keys.queues))
    await end(metered, await fetch(metered, 4), Failed(AWAY))
    urgent = await harness.add(priority="high")
    assert [claim.id for claim in await fetch(metered, 5)] == [urgent]

    def shown(queue: str) -> Any:
        return metrics.registry.get_sample_value("circuit_breaker_state", {"queue": queue})

    low, high = "jobqueue:low_priority", "jobqueue:high_priority"
    assert (shown(low), shown(high)) == (2, 0)
    await harness.clock.advance(30)
    probe = await fetch(metered, 5)
    assert (shown(low), shown(high)) == (1, 0)
    await end(metered, probe, Done())
    assert shown(low) == 0


async def test_an_open_breaker_waits_instead_of_asking(
    harness: Harness, source: FileSource
) -> None:
    harness.set(poll=0.01)
    lone = harness.source(breaker=OPTIONS)
    lone.planner.breakers[0] = lone.planner.breakers[1]
    await end(lone, await fetch(lone, 4), Failed(AWAY))
    assert lone.planner.closed_for_s() == 30
    await lone.wait(0.01)
