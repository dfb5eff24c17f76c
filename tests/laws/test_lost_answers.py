"""A call that took effect, and whose answer nobody heard."""

import asyncio

import pytest

from tests.support.deaf import made_deaf
from waystation.core.errors import StoreUnreachable
from waystation.core.outcome import Done, Returned
from waystation.core.runtime.claim import Settled

from .line import Line

KEPT_IN_A_STORE = pytest.mark.parametrize("line", ["bullmq", "files", "routing"], indirect=True)


@KEPT_IN_A_STORE
async def test_what_was_claimed_is_found_by_the_one_who_asked(line: Line) -> None:
    ids = [await line.add() for _ in range(3)]
    source = line.source()
    held = (await source.settle([], claim=1)).claims
    made_deaf(source).lose_next()
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
    made_deaf(source).lose_next()
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
    made_deaf(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle(held, claim=1)

    reply = await source.settle(held, claim=1)

    assert [refused.claim.id for refused in reply.refused] == [first]
    assert [claim.id for claim in reply.claims] == [second]
    assert await line.state(first) == "completed"


@KEPT_IN_A_STORE
async def test_nobody_looks_for_what_was_not_lost(line: Line) -> None:
    id = await line.add()
    source = line.source()
    made_deaf(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=1)
    assert [claim.id for claim in (await source.settle([], claim=1)).claims] == [id]

    assert not (await source.settle([], claim=1)).claims


@KEPT_IN_A_STORE
async def test_two_who_look_at_once_do_not_find_the_same(line: Line) -> None:
    id = await line.add()
    source = line.source()
    made_deaf(source).lose_next()
    with pytest.raises(StoreUnreachable):
        await source.settle([], claim=1)

    replies = await asyncio.gather(*(source.settle([], claim=1) for _ in range(2)))

    assert [claim.id for reply in replies for claim in reply.claims] == [id]


@KEPT_IN_A_STORE
async def test_what_was_looked_for_in_vain_is_looked_for_again(line: Line) -> None:
    id = await line.add()
    source = line.source()
    deaf = made_deaf(source)
    for _ in range(2):
        deaf.lose_next()
        with pytest.raises(StoreUnreachable):
            await source.settle([], claim=1)

    assert [claim.id for claim in (await source.settle([], claim=1)).claims] == [id]
