"""Errors and results that cannot be stored as they are do not block the queue."""

import datetime
from typing import Any

import pytest

from tests.laws.line import Line
from tests.laws.test_working import until, working
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.claim import Settled

BIG = 20 * 2**20


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Fatal(Exception):
    """An error whose text ends the process of whoever wants to read it."""

    def __str__(self) -> str:
        raise SystemExit("no words")


class Lawless(datetime.tzinfo):
    """A time zone that fails when it is asked."""

    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta | None:
        raise RuntimeError("nobody knows")


ODD: dict[str, Outcome] = {
    "mute error": Failed(Mute()),
    "fatal error": Failed(Fatal()),
    "surrogate in the error": Failed(RuntimeError("half \ud83c")),
    "long error": Failed(RuntimeError("x" * BIG)),
    "long result": Done("x" * BIG),
    "result that raises": Done(datetime.datetime(2026, 1, 1, tzinfo=Lawless())),
}


@pytest.mark.parametrize("outcome", ODD.values(), ids=ODD)
async def test_an_odd_outcome_ends_its_job_and_no_other(line: Line, outcome: Outcome) -> None:
    odd, good = [await line.add(attempts=1) for _ in range(2)]
    source = line.source()
    claims = (await source.settle([], claim=2)).claims
    settled = [Settled(claims[0], outcome), Settled(claims[1], Done("ok"))]

    reply = await source.settle(settled, claim=0)

    assert not reply.refused
    assert await line.state(odd) in ("failed", "completed")
    assert await line.state(good) == "completed"


async def test_a_worker_outlives_errors_without_words(line: Line) -> None:
    bad, good = [await line.add(attempts=1) for _ in range(2)]
    turns = iter((True, False))

    async def handle(work: Any) -> None:
        if next(turns):
            raise Fatal

    async with working(line, handle, concurrency=1):
        await until(line, [bad], "failed")
        await until(line, [good], "completed")
