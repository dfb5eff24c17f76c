"""What plain handlers, in threads and in processes, ask of work that lives on the loop."""

import asyncio
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.patience import LIMIT_S, until
from waystation.core.errors import Cancelled, InvalidInput, WrongState
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.handlers.calls import Call, Calls, is_cancelled


class Counter:
    """Work that counts, on the loop it was made on."""

    def __init__(self, start: int = 0) -> None:
        self.value = start
        self.loop = asyncio.get_running_loop()

    async def add(self, more: int) -> int:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        if more < 0:
            raise ValueError(f"cannot take away {-more}")
        self.value += more
        return self.value

    async def odd(self) -> Any:
        return lambda: None

    def view(self, calls: Calls) -> "CounterView":
        return CounterView(calls)

    async def perform(self, call: Call) -> Any:
        return await getattr(self, call.step)(*call.args, **call.kwargs)


class CounterView:
    """The same for a plain function."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def add(self, more: Any) -> Any:
        return self.calls.make(Call("add", (more,)), lambda answer: ("now", answer))

    def odd(self) -> Any:
        return self.calls.make(Call("odd"), lambda answer: answer)


def count_up(counter: CounterView) -> Any:
    return [counter.add(1), counter.add(10)]


def count_each(counters: list[CounterView]) -> Any:
    return [counter.add(place) for place, counter in enumerate(counters, 1)]


async def count_later(counter: CounterView) -> Any:
    return await counter.add(1), await counter.add(10)


def count_inside(counter: CounterView) -> Any:
    return asyncio.run(count_later(counter))


def count_on_the_loop(counter: CounterView) -> Any:
    return count_later(counter)


def take_away(counter: CounterView) -> Any:
    try:
        return counter.add(-1)
    except ValueError as error:
        return str(error)


def hand_in_what_cannot_travel(counter: CounterView) -> Any:
    return counter.add(lambda: None)


def get_what_cannot_travel(counter: CounterView) -> Any:
    return counter.odd()


_left_behind: list[threading.Thread] = []
_said: list[str] = []


def leave_a_thread_behind(counter: CounterView) -> None:
    ended = threading.Event()

    def later() -> None:
        ended.wait(LIMIT_S)
        try:
            counter.add(100)
        except WrongState as error:
            _said.append(str(error))

    _left_behind.append(threading.Thread(target=later))
    _left_behind[-1].start()
    threading.Timer(0.2, ended.set).start()


def late_answer(counter: CounterView) -> Any:
    for thread in _left_behind:
        thread.join(LIMIT_S)
    return _said, counter.add(1)


def sleep_long(counter: CounterView) -> None:
    counter.add(1)
    time.sleep(600)


async def run(function: Callable[[Any], Any], work: Any, *, process: bool) -> Any:
    handler = handler_of(function, process=process)
    try:
        async with asyncio.timeout(LIMIT_S):
            return await handler.run(work)
    finally:
        await handler.close()


in_both = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


@in_both
async def test_a_call_is_done_on_the_loop_before_it_returns(process: bool) -> None:
    counter = Counter(5)
    assert await run(count_up, counter, process=process) == [("now", 6), ("now", 16)]
    assert counter.value == 16


@in_both
async def test_each_of_a_batch_has_calls_of_its_own(process: bool) -> None:
    counters = [Counter(10), Counter(20)]
    assert await run(count_each, counters, process=process) == [("now", 11), ("now", 22)]


@in_both
async def test_what_a_call_raises_is_raised_in_the_handler(process: bool) -> None:
    assert await run(take_away, Counter(), process=process) == "cannot take away 1"


@pytest.mark.parametrize(
    ("function", "process"),
    [
        (count_inside, False),
        (count_inside, True),
        (count_on_the_loop, False),
        (count_on_the_loop, True),
        (count_later, True),
    ],
)
async def test_a_coroutine_that_gets_a_view_may_await(
    function: Callable[[Any], Any], process: bool
) -> None:
    assert list(await run(function, Counter(), process=process)) == [("now", 1), ("now", 11)]


async def test_what_cannot_travel_is_named() -> None:
    with pytest.raises(InvalidInput, match="what add was given cannot leave its process"):
        await run(hand_in_what_cannot_travel, Counter(), process=True)
    with pytest.raises(Exception, match="the answer to odd cannot leave its process"):
        await run(get_what_cannot_travel, Counter(), process=True)


async def test_whoever_outlives_the_handler_in_a_process_has_no_work() -> None:
    first, second = Counter(), Counter()
    handler = handler_of(_one_after_the_other, process=True)
    await handler.run([first])
    said, answer = await handler.run([second])
    await handler.close()

    assert said == ["add was not done: the handler has ended"]
    assert (answer, first.value, second.value) == (("now", 1), 0, 1)


def _one_after_the_other(counters: list[CounterView]) -> Any:
    return late_answer(counters[0]) if _left_behind else leave_a_thread_behind(counters[0])


async def test_a_thread_that_nobody_waits_for_any_more_sees_it_and_can_do_nothing() -> None:
    seen: list[Any] = []
    begun, ended = threading.Event(), threading.Event()

    def work_on(counter: CounterView) -> None:
        seen.append((counter.calls.cancelled, is_cancelled()))
        begun.set()
        while not counter.calls.cancelled:
            time.sleep(0.001)
        seen.append((counter.calls.cancelled, is_cancelled()))
        try:
            counter.add(1)
        except Cancelled as error:
            seen.append(str(error))
        ended.set()

    counter = Counter()
    handler = handler_of(work_on)
    running = asyncio.create_task(handler.run(counter))
    await asyncio.to_thread(begun.wait, LIMIT_S)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(ended.wait, LIMIT_S)
    await handler.close()

    assert seen[:2] == [(False, False), (True, True)]
    assert seen[2].startswith("add was not done: the job was cancelled")
    assert counter.value == 0
    assert not is_cancelled()


async def test_a_process_that_nobody_waits_for_any_more_is_ended() -> None:
    counter = Counter()
    handler = handler_of(sleep_long, process=True)
    running = asyncio.create_task(handler.run(counter))
    await until(lambda: counter.value)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await handler.close()


async def test_a_view_that_is_pickled_is_taken_away_from_its_worker() -> None:
    def take_away(counter: CounterView) -> Any:
        return pickle.loads(pickle.dumps(counter)).add(1)

    with pytest.raises(
        WrongState, match="add was not done: the job was taken away from its worker"
    ):
        await run(take_away, Counter(), process=False)


async def test_work_without_a_view_is_handed_over_as_it_is() -> None:
    assert await run(lambda work: work, {"a": 1}, process=False) == {"a": 1}
