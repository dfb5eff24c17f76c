"""Whatever a listener raises is logged, and the worker goes on."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.laws.line import Line
from tests.laws.test_working import Notes, until, working
from waystation.core.runtime.claim import Settled


class Raising(Notes):
    """A listener that remembers, and raises."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self._error = error

    def claimed(self, claims: Any) -> None:
        raise self._error("claimed")

    def settled(self, settled: Sequence[Settled[Any]]) -> None:
        super().settled(settled)
        raise self._error("settled")


class Slow(Notes):
    """A listener whose methods are coroutines."""

    async def settled(self, settled: Sequence[Settled[Any]]) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().settled(settled)


async def nothing(work: Any) -> None: ...


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, asyncio.CancelledError, GeneratorExit])
async def test_a_listener_that_raises_does_not_end_the_worker(
    line: Line, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    ids = [await line.add() for _ in range(3)]
    notes = Raising(error)

    async with working(line, nothing, notes, concurrency=1):
        await until(line, ids, "completed")

    assert notes.settled_ids == ids
    assert "listener_failed" in caplog.text


async def test_a_listener_whose_methods_are_coroutines_is_awaited(line: Line) -> None:
    ids = [await line.add() for _ in range(3)]
    notes = Slow()

    async with working(line, nothing, notes, concurrency=1):
        await until(line, ids, "completed")

    assert notes.settled_ids == ids
