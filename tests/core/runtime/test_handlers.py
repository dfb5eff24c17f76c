"""Handlers of every kind: on the loop, in threads, in processes, in batches."""

import asyncio
import contextvars
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.core.runtime.harness import working
from tests.support.patience import LIMIT_S, until
from waystation.core.errors import Cancelled, InvalidOption, ProcessDied, TimedOut
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.handlers.pools import Processes, Threads
from waystation.testing.memory import Entry, MemorySource


async def outcomes(handler: Callable[[Any], Any], *works: Any, **options: Any) -> list[Entry]:
    """Run the handler over the works and return what became of them."""
    source = MemorySource()
    for work in works:
        source.add(work)
    entries = source.entries.values()
    options = {"concurrency": 2, **options}
    async with working(source, handler, **options):
        await until(lambda: {each.state for each in entries} <= {"completed", "failed"})
    return list(entries)


def double(work: int) -> int:
    return work * 2


async def double_later(work: int) -> int:
    await asyncio.sleep(0)
    return work * 2


def process_id(work: object) -> int:
    return os.getpid()


def interrupt(work: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return work * 2


class Odd(BaseException):
    pass


GIVES_UP = """
import asyncio, time
from waystation.core.runtime.handlers import handler_of
from waystation.testing.memory import MemorySource
from waystation.core.runtime.worker import Worker, WorkerOptions

async def main():
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(work):
        loop.call_soon_threadsafe(begun.set)
        time.sleep(3600)

    source = MemorySource()
    source.add("work")
    worker = Worker(source, handler_of(endless), WorkerOptions(grace=0))
    running = asyncio.create_task(worker.run())
    await begun.wait()
    worker.stop()
    await running
    print("given up")

asyncio.run(main())
"""


def raise_odd(work: int) -> int:
    raise Odd(work)


def raise_odd_together(works: list[int]) -> list[int]:
    raise Odd(works)


def die(work: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_long(work: object) -> None:
    time.sleep(60)


def refuse(work: object) -> None:
    raise ValueError(f"not {work}")


async def test_a_plain_function_runs_in_a_thread() -> None:
    def thread_name(work: object) -> str:
        return threading.current_thread().name

    (entry,) = await outcomes(thread_name, "work")

    assert entry.result.startswith("handler")


async def test_threads_are_used_again_and_are_no_more_than_needed() -> None:
    threads = Threads(name="few")
    names = [await threads.run(lambda: threading.current_thread().name) for _ in range(5)]
    assert len(set(names)) == 1

    together = threading.Barrier(8, timeout=LIMIT_S)
    many = await asyncio.gather(*(threads.run(together.wait) for _ in range(8)))
    assert sorted(many) == list(range(8))
    threads.close()


async def test_what_raises_in_a_thread_raises_here_and_the_thread_goes_on() -> None:
    threads = Threads(name="one")

    def fail() -> None:
        raise Odd("no")

    with pytest.raises(Odd):
        await threads.run(fail)
    assert await threads.run(lambda: 7) == 7
    threads.close()


def test_a_process_does_not_wait_for_a_thread_that_was_given_up(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(GIVES_UP)
    ended = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert ended.stdout == "given up\n"


async def test_a_coroutine_function_runs_on_the_loop() -> None:
    async def thread_name(work: object) -> str:
        return threading.current_thread().name

    (entry,) = await outcomes(thread_name, "work")

    assert entry.result == threading.main_thread().name


@pytest.mark.parametrize("handler", [double, double_later])
async def test_a_process_runs_either_kind(handler: Callable[[int], Any]) -> None:
    entries = await outcomes(handler, 1, 2, 3, process=True)

    assert [entry.result for entry in entries] == [2, 4, 6]


async def test_a_process_is_used_again() -> None:
    entries = await outcomes(process_id, *range(6), process=True, concurrency=1)

    assert len({entry.result for entry in entries}) == 1
    assert entries[0].result != os.getpid()


async def test_a_process_that_dies_fails_its_work_and_no_other() -> None:
    died, lived = await outcomes(_die_or_double, "die", 21, process=True, concurrency=1)

    assert isinstance(died.error, ProcessDied)
    assert "signal 9" in str(died.error)
    assert lived.result == 42


def _die_or_double(work: Any) -> Any:
    return die(work) if work == "die" else double(work)


async def test_a_process_that_dies_with_nothing_to_do_fails_no_work() -> None:
    processes = Processes()
    first = await processes.run(process_id, None)
    os.kill(first, signal.SIGKILL)
    await until(lambda: first not in [c.pid for c in multiprocessing.active_children()])

    assert await processes.run(process_id, None) != first
    await processes.close()


async def test_a_process_that_takes_too_long_is_killed() -> None:
    (entry,) = await outcomes(sleep_long, "work", process=True, timeout=0.5)

    assert isinstance(entry.error, TimedOut)


async def test_an_error_from_a_process_keeps_its_type_and_tells_where_it_came_from() -> None:
    (entry,) = await outcomes(refuse, "this", process=True)

    assert isinstance(entry.error, ValueError)
    assert str(entry.error) == "not this"
    assert "in refuse" in entry.error.__notes__[0]


async def test_a_result_that_cannot_leave_its_process_fails_the_work() -> None:
    (entry,) = await outcomes(_unpicklable, "work", process=True)

    assert "result cannot leave its process" in str(entry.error)


def _unpicklable(work: object) -> object:
    return threading.Lock()


class TakesTwo(Exception):
    """An error that pickles and does not unpickle, as many of those with own arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def _takes_two(work: int) -> int:
    raise TakesTwo(work, 2)


async def test_an_error_that_cannot_be_read_outside_its_process_keeps_its_words() -> None:
    (entry,) = await outcomes(_takes_two, 1, process=True)

    assert str(entry.error).startswith("TakesTwo: 1 and 2 (it cannot leave its process")
    assert "in _takes_two" in entry.error.__notes__[0]  # type: ignore[union-attr]


HOSTILE = [StopIteration, GeneratorExit, KeyboardInterrupt, SystemExit, asyncio.CancelledError]


def _hostile(work: int) -> int:
    raise HOSTILE[work]


async def _hostile_later(work: int) -> int:
    await asyncio.sleep(0)
    raise HOSTILE[work]


@pytest.mark.parametrize("handler", [_hostile, _hostile_later])
async def test_whatever_is_raised_in_a_process_fails_its_work(handler: Any) -> None:
    entries = await outcomes(handler, *range(len(HOSTILE)), process=True, concurrency=1)

    assert [entry.state for entry in entries] == ["failed"] * len(HOSTILE)


async def test_a_process_leaves_it_to_the_worker_what_a_ctrl_c_ends() -> None:
    [entry] = await outcomes(interrupt, 21, process=True)
    assert (entry.state, entry.result) == ("completed", 42)


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("process", [False, True])
async def test_whatever_a_handler_raises_fails_its_work_and_nothing_else(
    batch: int, process: bool
) -> None:
    handler = raise_odd_together if batch else raise_odd
    entries = await outcomes(handler, 1, 2, 3, process=process, batch=batch, concurrency=1)
    assert [entry.state for entry in entries] == ["failed"] * 3
    assert [type(entry.error) for entry in entries] == [Odd] * 3


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def sets(work: str) -> str:
    before = variable.get()
    variable.set(work)
    return before


async def sets_on_a_loop(work: str) -> str:
    await asyncio.sleep(0)
    return sets(work)


def sets_together(work: list[str]) -> list[str]:
    return [sets(each) for each in work][:1] * len(work)


async def sets_together_on_a_loop(work: list[str]) -> list[str]:
    return sets_together(work)


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize(
    ("handler", "batch"),
    [(sets, 0), (sets_on_a_loop, 0), (sets_together, 2), (sets_together_on_a_loop, 2)],
)
async def test_context_variables_do_not_leak_from_one_job_to_the_next(
    handler: Any, batch: int, process: bool
) -> None:
    work = ("a", "b", "c", "d")

    entries = await outcomes(handler, *work, process=process, batch=batch, concurrency=1)

    assert [entry.result for entry in entries] == ["unset"] * 4


async def test_a_timeout_raised_by_the_handler_itself_is_its_own_error() -> None:
    async def handle(work: object) -> None:
        raise TimeoutError("the mail server did not answer")

    (entry,) = await outcomes(handle, "work", timeout=30)

    assert str(entry.error) == "the mail server did not answer"


@pytest.mark.parametrize("batch", [0, 2])
async def test_a_cancellation_from_within_the_handler_fails_its_job(batch: int) -> None:
    async def handle(work: object) -> None:
        waiting = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    entries = await outcomes(handle, "work", "more", batch=batch, concurrency=1)

    assert [entry.state for entry in entries] == ["failed", "failed"]
    assert isinstance(entries[0].error, Cancelled)


async def test_a_handler_may_cancel_its_own_job() -> None:
    source = MemorySource()
    id, second = source.add("work"), source.add("more")

    async def handle(work: str) -> str:
        if work == "work":
            worker.cancel(id)
        return work

    async with working(source, handle) as worker:
        await until(lambda: source.entries[second].state == "completed")

    assert source.entries[id].state == "failed"


async def test_a_batch_handler_gets_a_list_and_each_job_ends_on_its_own() -> None:
    sizes: list[int] = []

    async def handle(works: list[int]) -> list[Any]:
        sizes.append(len(works))
        return [ValueError("odd") if work % 2 else work for work in works]

    entries = await outcomes(handle, *range(6), batch=4, concurrency=1)

    assert max(sizes) == 4
    assert [entry.state for entry in entries] == ["completed", "failed"] * 3


@pytest.mark.parametrize("answer", [None, "text", [1, 2, 3]])
async def test_a_batch_handler_that_answers_wrongly_fails_its_jobs_with_a_reason(
    answer: object,
) -> None:
    async def handle(works: list[int]) -> object:
        return answer

    entries = await outcomes(handle, 1, 2, batch=2, concurrency=1)

    assert {entry.state for entry in entries} == {"failed"}
    assert "one result for each of its 2 jobs" in str(entries[0].error)


def test_a_negative_batch_is_refused() -> None:
    with pytest.raises(InvalidOption, match="batch must be at least 0, got -1"):
        handler_of(double, batch=-1)


def test_outcomes_are_values() -> None:
    error = ValueError("x")
    same: list[tuple[Outcome, Outcome]] = [(Done(1), Done(1)), (Failed(error), Failed(error))]
    assert all(left == right for left, right in same)


def yields(work: int) -> Any:
    yield work


async def yields_later(work: int) -> Any:
    yield work


def takes_nothing() -> None: ...


def takes_two(work: int, other: int) -> None: ...


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (yields, "the handler yields must return its result, not yield it"),
        (yields_later, "the handler yields_later must return its result, not yield it"),
        (takes_nothing, "the handler takes_nothing must take one argument, the job"),
        (takes_two, r"it is takes_two\(work: int, other: int\) -> None"),
    ],
)
def test_a_handler_that_could_only_fail_is_refused_before_it_gets_a_job(
    handler: Callable[..., Any], said: str
) -> None:
    with pytest.raises(InvalidOption, match=said):
        handler_of(handler)


@pytest.mark.parametrize("handler", [int, partial(takes_two, other=1), print])
def test_whatever_takes_one_argument_can_be_a_handler(handler: Callable[..., Any]) -> None:
    assert handler_of(handler)
