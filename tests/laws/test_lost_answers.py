"""A call that took effect, and whose answer was lost."""

import asyncio
from typing import Any

import pytest

from tests.laws.line import Line
from tests.laws.test_working import Notes
from tests.support.lossy import make_lossy
from tests.support.patience import LIMIT_S
from waystation.core.errors import StoreUnreachable
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Settled
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions

KEPT_IN_A_STORE = pytest.mark.parametrize("line", ["bullmq", "files", "routing"], indirect=True)


@KEPT_IN_A_STORE
async def test_what_was_claimed_is_found_by_the_one_who_asked(line: Line) -> None:
    ids = [await line.add() for _ in range(3)]
    source = line.source()
    held = (await source.settle([], claim=1)).claims
    make_lossy(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=1)

    reply = await source.settle([Settled(held[0], Done("ok"))], claim=5)

    assert [claim.id for claim in (*held, *reply.claims)] == ids
    assert not reply.refused
    ended = await source.settle([Settled(claim, Done("ok")) for claim in reply.claims], claim=5)
    assert not ended.refused
    assert not ended.claims
    assert [await line.state(id) for id in ids] == ["completed"] * 3


@KEPT_IN_A_STORE
async def test_what_was_claimed_goes_back_when_nobody_wants_it_any_more(line: Line) -> None:
    id = await line.add()
    source = line.source()
    make_lossy(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=1)

    reply = await source.settle([], claim=1)
    await source.settle([Settled(claim, Returned()) for claim in reply.claims], claim=0)

    assert await line.state(id) == "waiting"


@KEPT_IN_A_STORE
async def test_an_outcome_that_was_filed_counts_once(line: Line) -> None:
    first, second = [await line.add() for _ in range(2)]
    source = line.source()
    held = [Settled(claim, Done("ok")) for claim in (await source.settle([], claim=1)).claims]
    make_lossy(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle(held, claim=1)

    reply = await source.settle(held, claim=1)

    assert not reply.refused
    assert [(each.claim.id, each.outcome) for each in reply.settled] == [(first, Done("ok"))]
    assert [claim.id for claim in reply.claims] == [second]
    assert await line.state(first) == "completed"


OUTCOMES = [Done("ok"), Failed(RuntimeError("no")), Returned()]


@KEPT_IN_A_STORE
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=["done", "failed", "returned"])
async def test_an_outcome_that_was_filed_is_no_refusal(
    line: Line, outcome: Outcome, attempts: int
) -> None:
    id = await line.add(attempts=attempts, backoff_ms=60_000)
    source = line.source()
    (claim,) = (await source.settle([], claim=1)).claims
    settled = [Settled(claim, outcome)]
    make_lossy(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle(settled, claim=0)
    state = await line.state(id)
    assert state != "active"

    reply = await source.settle(settled, claim=0)

    assert not reply.refused
    assert [each.claim for each in reply.settled] == [claim]
    assert isinstance(reply.settled[0].outcome, type(outcome))
    assert await line.state(id) == state


@KEPT_IN_A_STORE
async def test_a_retry_that_was_filed_is_no_refusal_when_another_has_begun_it(line: Line) -> None:
    id = await line.add(attempts=3)
    source = line.source()
    (claim,) = (await source.settle([], claim=1)).claims
    settled = [Settled(claim, Failed(RuntimeError("no")))]
    make_lossy(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle(settled, claim=0)
    assert [each.id for each in (await line.source().settle([], claim=1)).claims] == [id]

    reply = await source.settle(settled, claim=0)

    assert not reply.refused
    assert len(reply.settled) == 1
    assert await line.state(id) == "active"


@KEPT_IN_A_STORE
@pytest.mark.parametrize("outcome", OUTCOMES[:2], ids=["done", "failed"])
async def test_an_outcome_that_was_never_filed_is_refused_even_when_in_doubt(
    line: Line, outcome: Outcome
) -> None:
    """The call did not reach the store, the lease lapsed, and another one did the work."""
    id = await line.add()
    slow, quick = line.source(), line.source()
    (stale,) = (await slow.settle([], claim=1)).claims
    settled = [Settled(stale, outcome, 99.0)]
    make_lossy(slow).miss_next()
    with pytest.raises(StoreUnreachable):
        await slow.settle(settled, claim=0)
    await line.lapse_leases()
    (fresh,) = (await quick.settle([], claim=1)).claims
    assert not (await quick.settle([Settled(fresh, Done("in time"))], claim=0)).refused

    reply = await slow.settle(settled, claim=0)

    assert [each.claim for each in reply.refused] == [stale]
    assert not reply.settled
    assert await line.state(id) == "completed"


@KEPT_IN_A_STORE
async def test_an_outcome_that_did_not_reach_the_store_is_filed_when_it_is_sent_again(
    line: Line,
) -> None:
    id = await line.add()
    source = line.source()
    (claim,) = (await source.settle([], claim=1)).claims
    settled = [Settled(claim, Done("ok"))]
    make_lossy(source).miss_next()
    with pytest.raises(StoreUnreachable):
        await source.settle(settled, claim=0)
    assert await line.state(id) == "active"

    reply = await source.settle(settled, claim=0)

    assert not reply.refused
    assert await line.state(id) == "completed"


@KEPT_IN_A_STORE
async def test_a_lost_answer_while_looking_is_no_refusal_either(line: Line) -> None:
    ids = [await line.add() for _ in range(2)]
    source = line.source()
    claims = (await source.settle([], claim=2)).claims
    settled = [Settled(claim, Done("ok")) for claim in claims]
    lossy = make_lossy(source)
    for _ in range(3):
        lossy.lose_next()
        with pytest.raises(StoreUnreachable):
            await source.settle(settled[:1], claim=0)
    lossy.lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle(settled, claim=0)

    reply = await source.settle(settled, claim=0)

    assert not reply.refused
    assert sorted(each.claim.id for each in reply.settled) == sorted(ids)


@KEPT_IN_A_STORE
async def test_a_worker_that_misses_answers_tells_every_outcome_once(line: Line) -> None:
    ids = [await line.add() for _ in range(12)]
    notes = Notes()
    source = line.source()
    lossy = make_lossy(source)
    lossy.loses = {2, 4, 7}

    async def handle(work: Any) -> None:
        await asyncio.sleep(0)

    options = WorkerOptions(concurrency=3, batch_limit=3, poll=0.05)
    worker = Worker(source, handler_of(handle), options, listener=notes)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(LIMIT_S):
        while len(notes.settled_ids) < len(ids):
            await asyncio.sleep(0.005)
    worker.stop()
    await running

    assert sorted(notes.settled_ids) == sorted(ids)
    assert not notes.refused_ids
    assert [await line.state(id) for id in ids] == ["completed"] * len(ids)


@KEPT_IN_A_STORE
async def test_nobody_looks_for_what_was_not_lost(line: Line) -> None:
    id = await line.add()
    source = line.source()
    make_lossy(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=1)
    assert [claim.id for claim in (await source.settle([], claim=1)).claims] == [id]

    assert not (await source.settle([], claim=1)).claims


@KEPT_IN_A_STORE
async def test_two_who_look_at_once_do_not_find_the_same(line: Line) -> None:
    id = await line.add()
    source = line.source()
    make_lossy(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=1)

    replies = await asyncio.gather(*(source.settle([], claim=1) for _ in range(2)))

    assert [claim.id for reply in replies for claim in reply.claims] == [id]


@KEPT_IN_A_STORE
async def test_what_was_looked_for_in_vain_is_looked_for_again(line: Line) -> None:
    id = await line.add()
    source = line.source()
    lossy = make_lossy(source)
    for _ in range(2):
        lossy.lose_next()
        with pytest.raises(StoreUnreachable):
            await source.settle([], claim=1)

    assert [claim.id for claim in (await source.settle([], claim=1)).claims] == [id]
