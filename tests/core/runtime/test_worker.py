"""The worker beyond what the laws say: batching, trouble with the source, leases under load."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from tests.core.runtime.harness import Recorded, no_op, until_all, working
from tests.support.patience import LIMIT_S, until
from waystation.core.errors import (
    InvalidOption,
    StoreUnreachable,
)
from waystation.core.runtime import worker as worker_module
from waystation.core.runtime.claim import Extend, Reply, Settled
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.testing.memory import MemorySource


async def test_what_is_done_together_is_filed_together() -> None:
    source = Recorded()
    for _ in range(1000):
        source.add("work")

    async with working(source, no_op, concurrency=100, batch_limit=50):
        await until_all(source)

    filing = [settled for settled, _ in source.calls if settled]
    assert len(filing) <= 1000 / 50 + 5


async def test_a_lone_job_is_filed_at_once() -> None:
    source = Recorded()
    source.add("work")
    blocked = asyncio.Event()

    async def handle(work: Any) -> None:
        if work == "slow":
            await blocked.wait()

    async with working(source, handle, concurrency=10):
        source.add("slow")
        await until(lambda: source.entries["1"].state == "completed")
        assert source.entries["2"].state == "active"
        blocked.set()


class Callers(Recorded):
    """Remembers which task has filed what, and how many calls were under way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.filed_by: list[asyncio.Task[Any] | None] = []
        self.let_file = asyncio.Event()
        self.let_file.set()
        self.most = self._under_way = 0

    async def settle(self, settled: Sequence[Settled[Any]], *, claim: int) -> Reply[Any]:
        if settled:
            self.filed_by.append(asyncio.current_task())
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            if settled:
                await self.let_file.wait()
            return await super().settle(settled, claim=claim)
        finally:
            self._under_way -= 1


async def test_a_slot_beside_which_nothing_runs_files_its_outcome_itself() -> None:
    source = Callers()
    for _ in range(5):
        source.add("work")
    ran_in: list[asyncio.Task[Any] | None] = []

    async def handle(work: Any) -> None:
        await asyncio.sleep(0)
        ran_in.append(asyncio.current_task())

    async with working(source, handle, concurrency=1):
        await until_all(source)

    assert source.filed_by == ran_in
    assert [settled for settled, _ in source.calls if settled] == [1] * 5


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_call_of_a_slot_that_fails_is_made_again(
    monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    pauses: list[int] = []

    class Patience:
        def pause_ms(self, tries: int, dice: object) -> int:
            pauses.append(tries)
            return 1

    monkeypatch.setattr(worker_module, "_RETRY_BACKOFF", Patience())
    source = Recorded()
    for number in range(20):
        source.add(number)
    ran: list[int] = []

    async def handle(number: int) -> None:
        ran.append(number)
        if number % 3 == 0:
            source.trouble = [StoreUnreachable("gone") for _ in range(2)]

    async with working(source, handle, concurrency=1, calls=calls):
        await until_all(source)

    assert ran == list(range(20))
    assert pauses == [1, 2] * 7


async def test_a_slot_that_is_cancelled_while_it_files_leaves_its_call_to_a_lane() -> None:
    source = Callers()
    first, second = source.add("first"), source.add("second")
    waiting = asyncio.Event()

    async def handle(work: Any) -> None:
        task = asyncio.current_task()
        assert task
        if work == "first":
            source.let_file.clear()
            asyncio.get_running_loop().call_soon(task.cancel)
            asyncio.get_running_loop().call_later(0.01, source.let_file.set)
        else:
            waiting.set()
            await asyncio.Event().wait()

    async with working(source, handle, concurrency=1) as worker, asyncio.timeout(LIMIT_S):
        await waiting.wait()
        # The slot that has taken the other's place can be stopped like any.
        assert worker.cancel(second)
        await until(lambda: source.entries[second].state == "failed")

    assert source.entries[first].state == "completed"
    assert source.entries[first].attempts_made == 1


async def test_a_worker_that_is_cancelled_while_a_slot_files_starts_nothing_more() -> None:
    source = Callers()
    source.let_file.clear()
    for each in ("first", "second"):
        source.add(each)
    ran: list[Any] = []

    async def handle(work: Any) -> None:
        ran.append(work)

    worker = Worker(source, handler_of(handle))
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(LIMIT_S):
        await until(lambda: source.filed_by)
        running.cancel()
        source.let_file.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert ran == ["first"]


@pytest.mark.parametrize("calls", [1, 2])
async def test_no_more_calls_are_under_way_than_there_may_be(calls: int) -> None:
    source = Callers()
    for _ in range(300):
        source.add("work")

    async def handle(work: Any) -> None:
        if random.random() < 0.5:
            await asyncio.sleep(0)

    async with working(source, handle, concurrency=7, batch_limit=3, calls=calls):
        await until_all(source)

    assert source.most <= calls


async def test_what_ends_in_one_turn_is_filed_in_one_call() -> None:
    source = Recorded()
    for _ in range(10):
        source.add("work")
    begun: list[Any] = []
    ended = asyncio.Event()

    async def handle(work: Any) -> None:
        begun.append(work)
        await ended.wait()

    async with working(source, handle, concurrency=10):
        await until(lambda: len(begun) == 10)
        ended.set()
        await until_all(source)

    assert [settled for settled, _ in source.calls if settled] == [10]


async def test_a_worker_that_stops_says_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    source, begun, go_on = MemorySource(), asyncio.Event(), asyncio.Event()
    id = source.add("slow")

    async def handle(work: str) -> None:
        begun.set()
        await go_on.wait()

    async with asyncio.timeout(LIMIT_S), working(source, handle, grace=10 * LIMIT_S) as worker:
        await begun.wait()
        worker.stop()
        await until(lambda: "worker_stopping" in caplog.text)
        go_on.set()

    [record] = [vars(each) for each in caplog.records if "worker_stopping" in each.getMessage()]
    assert (record["count"], record["limit_ms"]) == (1, 10_000 * LIMIT_S)
    assert source.entries[id].state == "completed"


async def test_a_worker_with_nothing_to_do_stops_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with working(MemorySource(), no_op):
        await asyncio.sleep(0)
    assert "worker_stopped" in caplog.text
    assert "worker_stopping" not in caplog.text


async def test_more_than_was_asked_for_does_not_make_more_room() -> None:
    class Generous(MemorySource):
        """Finds work of lost answers even when nobody asks for more."""

        def __init__(self) -> None:
            super().__init__()
            self.asked: list[int] = []
            self.finds = 0

        async def settle(self, settled: Sequence[Settled[Any]], *, claim: int) -> Reply[Any]:
            self.asked.append(claim)
            found, self.finds = self.finds, 0
            return await super().settle(settled, claim=claim + found)

    source, begun, go_on = Generous(), asyncio.Event(), asyncio.Event()

    async def wait_for_word(work: Any) -> None:
        begun.set()
        await go_on.wait()

    source.add("first")
    async with working(source, wait_for_word) as worker:
        await begun.wait()
        worker.pause()
        source.finds = 3
        for n in range(3):
            source.add(n)
        go_on.set()
        await until_all(source)
        source.asked.clear()
        worker.resume()
        source.add("last")
        await until_all(source)

    assert max(source.asked) == 1


async def test_leases_are_renewed_while_a_handler_blocks_the_loop() -> None:
    source = MemorySource()
    entry = source.entries[source.add("work")]

    async def compute(work: Any) -> None:
        deadline, until = entry.deadline, time.monotonic() + LIMIT_S
        while entry.deadline == deadline:
            assert time.monotonic() < until, "the lease was never renewed"

    async with working(source, compute, renew=0.05):
        await until_all(source)

    assert entry.attempts_made == 1


async def test_a_handler_that_ignores_cancellation_does_not_keep_the_worker_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("waystation.core.runtime.worker._LAST_CALL_S", 0.05)
    monkeypatch.setattr("waystation.core.runtime.slots._CLOSE_S", 0.05)
    source = MemorySource()
    source.add("work")
    begun, end = asyncio.Event(), asyncio.Event()

    async def stubborn(work: Any) -> None:
        begun.set()
        while not end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await end.wait()

    async with working(source, stubborn, grace=0.01):
        await begun.wait()
    end.set()


async def test_a_batch_that_outlasts_the_grace_is_handed_back() -> None:
    source, begun = MemorySource(), asyncio.Event()
    ids = [source.add(n) for n in range(3)]

    async def endless(works: Sequence[int]) -> None:
        begun.set()
        await asyncio.sleep(3600)

    async with working(source, endless, batch=3, grace=0.01):
        await begun.wait()

    assert [source.entries[id].state for id in ids] == ["waiting"] * 3
    assert [source.entries[id].attempts_made for id in ids] == [0] * 3


async def test_a_batch_goes_on_until_none_of_its_jobs_is_wanted() -> None:
    source, begun, ended = MemorySource(), asyncio.Event(), asyncio.Event()
    first, second = [source.add(n) for n in range(2)]

    async def endless(works: Sequence[int]) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with working(source, endless, batch=2) as worker:
        await begun.wait()
        assert worker.cancel(first)
        await asyncio.sleep(0.01)
        assert not ended.is_set()
        assert worker.cancel(second)
        await until_all(source, "failed")
        # The slot is free for others.
        begun.clear()
        third = source.add(3)
        await begun.wait()
        assert worker.cancel(third)

    assert [entry.state for entry in source.entries.values()] == ["failed"] * 3


async def test_what_is_claimed_while_the_worker_stops_is_handed_back() -> None:
    class Slow(MemorySource):
        asked = asyncio.Event()

        async def settle(self, settled: Sequence[Settled[Any]], *, claim: int) -> Reply[Any]:
            reply = await super().settle(settled, claim=claim)
            if reply.claims:
                self.asked.set()
                await asyncio.sleep(0.05)
            return reply

    source = Slow()
    id = source.add("work")

    async with working(source, no_op):
        await source.asked.wait()

    assert source.entries[id].state in ("waiting", "completed")


async def test_work_that_comes_while_an_older_answer_is_on_its_way_is_not_forgotten() -> None:
    class Delayed(MemorySource):
        """Answers a call that settles only after a later wake-up has reached the worker."""

        woken = asyncio.Event()

        async def settle(self, settled: Sequence[Settled[Any]], *, claim: int) -> Reply[Any]:
            reply = await super().settle(settled, claim=claim)
            if settled and not self.woken.is_set():
                self.add("comes after the script ran")
                await self.woken.wait()
                await asyncio.sleep(0)
            return reply

        async def wait(self, at_most: float) -> None:
            await super().wait(at_most)
            # A wake-up comes once, as those of the store do.
            self._news.clear()
            if len(self.entries) > 1:
                self.woken.set()

    source = Delayed()
    source.add("first")

    async with working(source, no_op, concurrency=2, poll=3600):
        await until_all(source)


async def test_a_keeper_that_breaks_is_mended() -> None:
    class Brittle(MemorySource):
        breaks = 2

        @contextlib.asynccontextmanager
        async def keeper(self) -> AsyncGenerator[Extend]:
            if self.breaks:
                self.breaks -= 1
                raise RuntimeError("a bug in the client")
            async with super().keeper() as extend:
                yield extend

    source = Brittle()
    entry = source.entries[source.add("work")]

    async def handle(work: Any) -> None:
        deadline = entry.deadline
        await until(lambda: entry.deadline != deadline)

    async with working(source, handle, renew=0.05):
        await until_all(source)

    assert source.breaks == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", 0),
        ("batch_limit", 0),
        ("batch_limit", 1001),
        ("calls", -1),
        ("lease", 0),
        ("poll", -1),
        ("grace", -0.1),
        ("timeout", 0),
        ("lease", float("nan")),
    ],
)
def test_an_option_outside_its_range_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InvalidOption, match=rf"{name} must be .* got {value}"):
        WorkerOptions(**{name: value})  # pyright: ignore[reportArgumentType]
