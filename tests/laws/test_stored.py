"""A worker's answer about an outcome is what was stored."""

import math
from typing import Any

import pytest

from tests.laws.line import Line
from waystation.core.errors import InvalidResult
from waystation.core.outcome import Done, Failed, Retried, Returned
from waystation.core.runtime.claim import Settled, Source

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
KEEPS_RESULTS = pytest.mark.parametrize("line", ["bullmq", "routing"], indirect=True)


async def settle_next(source: Source[Any], outcome: Any) -> Settled[Any]:
    (claim,) = (await source.settle([], claim=1)).claims
    reply = await source.settle([Settled(claim, outcome, 0.5)], claim=0)
    assert not reply.refused
    (stored,) = reply.settled
    assert stored.claim is claim
    assert stored.took_s == 0.5
    return stored


async def test_what_was_done_comes_back_with_its_result(line: Line) -> None:
    await line.add()

    stored = await settle_next(line.source(), Done("ok"))

    assert stored.outcome == Done("ok")


async def test_a_failure_with_attempts_left_comes_back_as_a_retry(line: Line) -> None:
    await line.add(attempts=3, backoff_ms=60_000)
    error = RuntimeError("no")

    stored = await settle_next(line.source(), Failed(error))

    assert stored.outcome == Retried(error, 1, 60_000)


async def test_the_last_failure_comes_back_as_a_failure(line: Line) -> None:
    await line.add(attempts=2)
    source, error = line.source(), RuntimeError("no")
    await settle_next(source, Failed(RuntimeError("first")))

    stored = await settle_next(source, Failed(error))

    assert stored.outcome == Failed(error, 2)


async def test_what_was_handed_back_comes_back_as_that(line: Line) -> None:
    await line.add()

    assert (await settle_next(line.source(), Returned())).outcome == Returned()


@KEEPS_RESULTS
@pytest.mark.parametrize(
    "result",
    [math.nan, object(), ENDLESS, [math.inf]],
    ids=["nan", "object", "endless", "infinity"],
)
async def test_a_result_that_cannot_be_written_is_a_failure_for_good(
    line: Line, result: object
) -> None:
    id = await line.add(attempts=5)

    stored = await settle_next(line.source(), Done(result))

    match stored.outcome:
        case Failed(InvalidResult(), attempt=1) if not isinstance(stored.outcome, Retried):
            pass
        case other:
            pytest.fail(f"stored as {other}")
    assert await line.state(id) == "failed"


@KEEPS_RESULTS
async def test_half_a_character_is_a_result_like_any_other(line: Line) -> None:
    id = await line.add(attempts=5)

    stored = await settle_next(line.source(), Done("party \ud83c"))

    assert isinstance(stored.outcome, Done)
    assert await line.state(id) == "completed"
