"""Duties and when they run."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from tests.support.patience import LIMIT_S
from waystation.core.clock import HandClock
from waystation.core.errors import InvalidOption, StoreUnreachable
from waystation.core.runtime.loop import Loop


class Duty:
    def __init__(self, *failures: BaseException) -> None:
        self.passes = 0
        self._failures = list(failures)

    async def __call__(self) -> None:
        self.passes += 1
        if self._failures:
            raise self._failures.pop(0)


@contextlib.asynccontextmanager
async def turning(loop: Loop) -> AsyncGenerator[None]:
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        task.cancel()


async def test_a_duty_runs_at_once_and_then_every_so_often() -> None:
    clock, duty = HandClock(), Duty()
    async with turning(Loop(duty, every_s=10, jitter=0, clock=clock)):
        await clock.advance(0)
        assert duty.passes == 1
        await clock.advance(9)
        assert duty.passes == 1
        await clock.advance(31)
        assert duty.passes == 5


async def test_the_pause_is_spread_by_the_jitter() -> None:
    clock, duty = HandClock(), Duty()
    loop = Loop(duty, every_s=10, jitter=0.25, clock=clock, dice=lambda low, high: high)
    async with turning(loop):
        await clock.advance(12.4)
        assert duty.passes == 1
        await clock.advance(0.2)
        assert duty.passes == 2


@pytest.mark.parametrize(
    "failure", [StoreUnreachable("gone"), RuntimeError("a bug"), asyncio.CancelledError()], ids=repr
)
async def test_a_pass_that_fails_is_followed_by_the_next(failure: BaseException) -> None:
    clock, duty = HandClock(), Duty(failure)
    async with turning(Loop(duty, every_s=10, jitter=0, clock=clock)):
        await clock.advance(11)
        assert duty.passes == 2


async def test_a_store_that_stays_away_is_logged_at_once_and_then_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, duty = HandClock(), Duty(*[StoreUnreachable("gone")] * 90)
    async with turning(Loop(duty, every_s=1, jitter=0, clock=clock)):
        for passes, logged in ((50, 1), (90, 2), (100, 2)):
            await clock.advance(passes - duty.passes)
            assert [each.msg.split()[0] for each in caplog.records] == ["duty_delayed"] * logged


@pytest.mark.parametrize("failure", [StoreUnreachable("gone"), None])
async def test_it_ends_even_when_the_call_it_is_in_keeps_that_to_itself(
    failure: Exception | None,
) -> None:
    asked, passes = asyncio.Event(), 0

    async def swallow() -> None:
        nonlocal passes
        passes += 1
        asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        if failure:
            raise failure

    task = asyncio.create_task(Loop(swallow, every_s=0.001).run())
    await asked.wait()
    task.cancel()
    await asyncio.wait([task], timeout=LIMIT_S)

    assert task.cancelled()
    assert passes == 1


@pytest.mark.parametrize(("every_s", "jitter"), [(0, 0.1), (-1, 0.1), (1, 1), (1, -0.1)])
def test_a_senseless_rhythm_is_refused(every_s: float, jitter: float) -> None:
    with pytest.raises(InvalidOption):
        Loop(Duty(), every_s=every_s, jitter=jitter)
