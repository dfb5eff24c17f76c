"""Whatever a handler raises fails its attempt, and its slot goes on."""

import asyncio
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.laws.line import Line
from tests.laws.test_working import Notes, until, working
from waystation.core.outcome import Failed


class OddOne(BaseException):
    """What no handler should raise, and some library does."""


def stop_iteration(work: Any) -> Any:
    return next(iter(()))


def generator_exit(work: Any) -> None:
    raise GeneratorExit


def keyboard_interrupt(work: Any) -> None:
    raise KeyboardInterrupt


def system_exit(work: Any) -> None:
    raise SystemExit(3)


def cancelled_error(work: Any) -> None:
    raise asyncio.CancelledError


def odd_one(work: Any) -> None:
    raise OddOne("odd")


RAISING = [
    stop_iteration,
    generator_exit,
    keyboard_interrupt,
    system_exit,
    cancelled_error,
    odd_one,
]


def as_coroutine(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def handle(work: Any) -> Any:
        return function(work)

    return handle


def as_coroutine_that_waited(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def handle(work: Any) -> Any:
        await asyncio.sleep(0)
        return function(work)

    return handle


def as_plain_function(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


async def cancel_own_task(work: Any) -> None:
    task = asyncio.current_task()
    assert task
    task.cancel()
    await asyncio.sleep(60)


async def cancel_own_task_twice(work: Any) -> None:
    task = asyncio.current_task()
    assert task
    task.cancel()
    try:
        await asyncio.sleep(60)
    finally:
        task.cancel()


class Reasons(Notes):
    """Remembers why attempts failed."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[BaseException] = []

    def settled(self, settled: Any) -> None:
        super().settled(settled)
        outcomes = [each.outcome for each in settled]
        self.reasons += [each.error for each in outcomes if isinstance(each, Failed)]


async def fails_and_the_slot_goes_on(line: Line, bad: Callable[[Any], Any]) -> BaseException:
    """Let one slot do a bad piece of work, then a good one; why the bad one failed."""
    ids = [await line.add(attempts=1) for _ in range(2)]
    turns = iter((True, False))

    async def on_the_loop(work: Any) -> Any:
        return await bad(work) if next(turns) else "good"

    def in_a_thread(work: Any) -> Any:
        return bad(work) if next(turns) else "good"

    handle = on_the_loop if inspect.iscoroutinefunction(bad) else in_a_thread
    notes = Reasons()
    async with working(line, handle, notes, concurrency=1):
        await until(line, ids[:1], "failed")
        await until(line, ids[1:], "completed")
    (reason,) = notes.reasons
    return reason


@pytest.mark.parametrize("kind", [as_coroutine, as_coroutine_that_waited, as_plain_function])
@pytest.mark.parametrize("raising", RAISING)
async def test_whatever_a_handler_raises_is_a_failed_attempt(
    line: Line, kind: Callable[..., Any], raising: Callable[[Any], Any]
) -> None:
    reason = await fails_and_the_slot_goes_on(line, kind(raising))

    assert isinstance(reason, BaseException)
    assert str(reason) or type(reason).__name__


@pytest.mark.parametrize("bad", [cancel_own_task, cancel_own_task_twice])
async def test_a_handler_that_cancels_its_own_task_fails(
    line: Line, bad: Callable[[Any], Any]
) -> None:
    reason = await fails_and_the_slot_goes_on(line, bad)

    assert "cancelled" in str(reason)


async def test_a_handler_that_cancels_its_own_task_and_returns_is_done(line: Line) -> None:
    ids = [await line.add(attempts=1) for _ in range(3)]

    async def handle(work: Any) -> str:
        task = asyncio.current_task()
        assert task
        task.cancel()
        return "done"

    async with working(line, handle, concurrency=1):
        await until(line, ids, "completed")


async def test_a_slot_that_was_cancelled_from_outside_is_replaced(line: Line) -> None:
    """Whoever cancels every task of the loop must not leave a worker that takes nothing."""
    ids = [await line.add(attempts=1) for _ in range(2)]
    slots: list[asyncio.Task[Any]] = []

    async def handle(work: Any) -> str:
        task = asyncio.current_task()
        assert task
        slots.append(task)
        return "done"

    async with working(line, handle, concurrency=1):
        await until(line, ids, "completed")
        slots[0].cancel()
        await asyncio.sleep(0.01)
        await until(line, [await line.add(attempts=1)], "completed")


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_slot_that_is_cancelled_while_it_settles_loses_nothing(
    line: Line, calls: int
) -> None:
    """A handler may leave something behind that cancels the task it ran in, when it has ended."""
    ids = [await line.add(attempts=1) for _ in range(8)]
    notes = Notes()
    begun: list[Any] = []
    delays = itertools.cycle((None, 0.0001, 0.0003))

    async def handle(work: Any) -> str:
        begun.append(work)
        task = asyncio.current_task()
        assert task
        loop = asyncio.get_running_loop()
        # The slot waits for the store by then, or the answer is there already.
        if delay := next(delays):
            loop.call_later(delay, task.cancel)
        else:
            loop.call_soon(task.cancel)
        return "done"

    async with working(line, handle, notes, concurrency=1, calls=calls):
        await until(line, ids, "completed")

    assert sorted(notes.settled_ids) == sorted(ids)
    assert not notes.refused_ids
    assert len(begun) == len(ids)
