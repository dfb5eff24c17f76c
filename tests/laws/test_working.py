"""How a worker treats the work of any line: drain, timeout, cancellation, lost leases."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from tests.laws.line import Line
from tests.support.patience import LIMIT_S
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import MOST_AT_ONCE, Worker, WorkerOptions


class Notes:
    """Records what a worker reported."""

    def __init__(self) -> None:
        self.settled_ids: list[str] = []
        self.refused_ids: list[str] = []
        self.lost_ids: list[str] = []

    def claimed(self, claims: Any) -> None: ...

    def settled(self, settled: Sequence[Settled[Any]]) -> None:
        self.settled_ids += [each.claim.id for each in settled]

    def refused(self, refused: Sequence[Refused[Any]]) -> None:
        self.refused_ids += [each.claim.id for each in refused]

    def lost(self, claims: Sequence[Claim[Any]]) -> None:
        self.lost_ids += [claim.id for claim in claims]

    def troubled(self, error: Exception) -> None: ...


@contextlib.asynccontextmanager
async def working(
    line: Line, handler: Callable[[Any], Any], notes: Notes | None = None, **options: Any
) -> AsyncGenerator[Worker[Any]]:
    options = {"concurrency": 4, "poll": 0.05} | options
    settings = WorkerOptions(**options)
    worker = Worker(
        line.source(),
        handler_of(handler),
        settings,
        listener=notes,
    )
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await running


async def until(line: Line, ids: list[str], state: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        for id in ids:
            while await line.state(id) != state:
                await asyncio.sleep(0.005)


class Blocked:
    """A handler that says when it has begun, and ends when let."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_end = asyncio.Event()
        self.interrupted = 0

    async def __call__(self, work: Any) -> str:
        self.begun.set()
        try:
            await self.let_end.wait()
        except asyncio.CancelledError:
            self.interrupted += 1
            raise
        return "done"


async def test_all_work_is_done_once(line: Line) -> None:
    ids = [await line.add() for _ in range(200)]
    seen: Counter[int] = Counter()
    notes = Notes()

    async def handle(work: Any) -> None:
        seen[id(work)] += 1
        await asyncio.sleep(0)

    async with working(line, handle, notes, concurrency=16):
        await until(line, ids, "completed")

    assert sum(seen.values()) == 200
    assert sorted(notes.settled_ids) == sorted(ids)
    assert not notes.refused_ids


async def test_never_more_handlers_run_than_the_concurrency(line: Line) -> None:
    ids = [await line.add() for _ in range(30)]
    running = most = 0

    async def handle(work: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with working(line, handle, concurrency=3):
        await until(line, ids, "completed")

    assert most == 3


async def test_work_that_arrives_later_is_found(line: Line) -> None:
    async def handle(work: Any) -> None: ...

    async with working(line, handle):
        await asyncio.sleep(0.02)
        id = await line.add()
        await until(line, [id], "completed")


async def test_a_paused_worker_leaves_to_others_what_wakes_it(line: Line) -> None:
    """It was the first to wait, so it is the first to be woken."""
    sleepy = Blocked()
    async with working(line, sleepy, poll=3600) as paused:
        await asyncio.sleep(0.1)
        paused.pause()

        async def handle(work: Any) -> None: ...

        async with working(line, handle, poll=3600):
            await asyncio.sleep(0.1)
            async with asyncio.timeout(LIMIT_S):
                await until(line, [await line.add()], "completed")
    assert not sleepy.begun.is_set()


async def test_a_stopped_worker_finishes_what_it_has_begun(line: Line) -> None:
    id = await line.add()
    handler = Blocked()
    async with working(line, handler) as worker:
        await handler.begun.wait()
        worker.stop()
        handler.let_end.set()

    assert await line.state(id) == "completed"


async def test_a_stopped_worker_hands_back_what_outlasts_its_grace(line: Line) -> None:
    ids = [await line.add(attempts=1) for _ in range(3)]
    handler = Blocked()
    async with working(line, handler, concurrency=2, grace=0.01):
        await handler.begun.wait()

    assert handler.interrupted == 2
    assert [await line.state(id) for id in ids] == ["waiting"] * 3
    assert [c.id for c in (await line.source().settle([], claim=3)).claims] == ids


async def test_a_handler_that_takes_too_long_is_stopped_and_fails(line: Line) -> None:
    id = await line.add(attempts=1)
    handler = Blocked()
    async with working(line, handler, timeout=0.01):
        await until(line, [id], "failed")

    assert handler.interrupted == 1


async def test_a_cancelled_handler_is_stopped_and_fails(line: Line) -> None:
    id = await line.add(attempts=1)
    handler = Blocked()
    async with working(line, handler) as worker:
        await handler.begun.wait()
        assert worker.cancel(id)
        await until(line, [id], "failed")
        assert not worker.cancel(id)

    assert handler.interrupted == 1


async def test_a_lost_lease_stops_the_handler_and_its_result_does_not_count(line: Line) -> None:
    id = await line.add()
    handler, notes = Blocked(), Notes()
    async with working(line, handler, notes, concurrency=1, renew=0.2) as worker:
        await handler.begun.wait()
        worker.pause()
        source, fresh = line.source(), list[Claim[Any]]()
        async with asyncio.timeout(LIMIT_S):
            # A renewal may come between two steps of letting the leases run out.
            while not fresh:
                await line.lapse_leases()
                fresh = list((await source.settle([], claim=1)).claims)
        async with asyncio.timeout(LIMIT_S):
            while not notes.lost_ids:
                await asyncio.sleep(0.01)
        assert [claim.id for claim in fresh] == [id]

    assert notes.lost_ids == [id]
    assert handler.interrupted == 1
    assert notes.settled_ids == []
    assert await line.state(id) == "active"


async def test_a_paused_worker_takes_nothing_until_resumed(line: Line) -> None:
    async def handle(work: Any) -> None: ...

    async with working(line, handle, poll=0.01) as worker:
        worker.pause()
        await asyncio.sleep(0.02)
        id = await line.add()
        await asyncio.sleep(0.05)
        assert await line.state(id) == "waiting"
        worker.resume()
        await until(line, [id], "completed")


async def test_no_work_is_lost_by_the_largest_call(line: Line) -> None:
    source, ids = line.source(), list[str]()
    while len(ids) < MOST_AT_ONCE:
        ids += await asyncio.gather(*(line.add() for _ in range(50)))
    claims: dict[str, Claim[Any]] = {}
    async with asyncio.timeout(LIMIT_S):
        while len(claims) < len(ids):
            reply = await source.settle([], claim=MOST_AT_ONCE)
            claims |= {claim.id: claim for claim in reply.claims}
        assert claims.keys() == set(ids)
        done = [Settled(claim, Done()) for claim in claims.values()]
        assert len((await source.settle(done, claim=MOST_AT_ONCE)).settled) == len(ids)
