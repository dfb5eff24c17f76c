"""Who holds work, and what becomes of it when the holder is gone."""

import asyncio

import pytest
from redis.asyncio import Redis

from tests.laws.line import Line
from waystation.core.errors import WaystationError
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Settled


async def test_two_workers_never_hold_the_same_work(line: Line) -> None:
    ids = [await line.add() for _ in range(40)]
    ours, theirs = line.source(), line.source()

    replies = await asyncio.gather(
        *(source.settle([], claim=5) for source in (ours, theirs) for _ in range(4))
    )

    claimed = [claim.id for reply in replies for claim in reply.claims]
    assert sorted(claimed) == sorted(ids)


async def test_the_first_in_is_the_first_out(line: Line) -> None:
    ids = [await line.add() for _ in range(10)]
    source = line.source()

    one = await source.settle([], claim=1)
    rest = await source.settle([], claim=100)

    assert [claim.id for claim in (*one.claims, *rest.claims)] == ids


async def test_no_more_is_claimed_than_was_asked_for(line: Line) -> None:
    for _ in range(5):
        await line.add()

    reply = await line.source().settle([], claim=3)

    assert len(reply.claims) == 3


async def test_work_of_a_worker_that_died_is_done_by_another(line: Line) -> None:
    id = await line.add()
    dead = line.source()
    assert (await dead.settle([], claim=1)).claims

    await line.lapse_leases()
    living = line.source()
    (claim,) = (await living.settle([], claim=1)).claims
    reply = await living.settle([Settled(claim, Done("by another"))], claim=0)

    assert not reply.refused
    assert await line.state(id) == "completed"


async def test_an_outcome_after_the_lease_was_lost_is_refused(line: Line) -> None:
    id = await line.add()
    slow, quick = line.source(), line.source()
    (stale,) = (await slow.settle([], claim=1)).claims
    await line.lapse_leases()
    (fresh,) = (await quick.settle([], claim=1)).claims

    refused = (await slow.settle([Settled(stale, Done("late"))], claim=0)).refused

    assert [each.claim for each in refused] == [stale]
    assert isinstance(refused[0].reason, WaystationError)
    assert await line.state(id) == "active"
    assert not (await quick.settle([Settled(fresh, Done("in time"))], claim=0)).refused
    assert await line.state(id) == "completed"


async def test_one_worker_that_claims_the_same_work_twice_cannot_settle_it_with_the_old_claim(
    line: Line,
) -> None:
    await line.add()
    source = line.source()
    (stale,) = (await source.settle([], claim=1)).claims
    await line.lapse_leases()
    (fresh,) = (await source.settle([], claim=1)).claims

    assert (await source.settle([Settled(stale, Done())], claim=0)).refused
    assert not (await source.settle([Settled(fresh, Done())], claim=0)).refused


async def test_an_outcome_filed_twice_counts_once(line: Line) -> None:
    await line.add(attempts=1)
    source = line.source()
    (claim,) = (await source.settle([], claim=1)).claims

    first = await source.settle([Settled(claim, Done())], claim=0)
    second = await source.settle([Settled(claim, Done())], claim=0)

    assert not first.refused
    assert second.refused


async def test_a_refused_outcome_does_not_take_its_neighbours_with_it(line: Line) -> None:
    lost = await line.add()
    source = line.source()
    (stale,) = (await source.settle([], claim=1)).claims
    await line.lapse_leases()
    ids = [await line.add() for _ in range(2)]
    claims = (await line.source().settle([], claim=3)).claims
    kept = [claim for claim in claims if claim.id != lost]

    reply = await source.settle([Settled(c, Done()) for c in (kept[0], stale, kept[1])], claim=0)

    assert [each.claim for each in reply.refused] == [stale]
    assert [await line.state(id) for id in ids] == ["completed", "completed"]


async def test_renewing_tells_which_leases_are_lost(line: Line) -> None:
    await line.add()
    source = line.source()
    (stale,) = (await source.settle([], claim=1)).claims
    await line.lapse_leases()
    (fresh,) = (await source.settle([], claim=1)).claims

    async with source.keeper() as extend:
        assert list(await extend([stale, fresh])) == [stale]


async def test_work_handed_back_is_next_in_line_and_costs_no_attempt(line: Line) -> None:
    id = await line.add(attempts=1)
    await line.add()
    source = line.source()
    (claim,) = (await source.settle([], claim=1)).claims

    (again,) = (await source.settle([Settled(claim, Returned())], claim=1)).claims

    assert again.id == id
    await source.settle([Settled(again, Failed(RuntimeError("its one attempt")))], claim=0)
    assert await line.state(id) == "failed"


async def test_settling_and_claiming_happen_in_one_call(line: Line) -> None:
    first, second = await line.add(), await line.add()
    source = line.source()
    (claim,) = (await source.settle([], claim=1)).claims

    reply = await source.settle([Settled(claim, Done())], claim=1)

    assert await line.state(first) == "completed"
    assert [claim.id for claim in reply.claims] == [second]


@pytest.mark.parametrize("end", [Done(), Failed(RuntimeError("no")), Returned(), None])
async def test_nothing_says_that_work_is_held_once_it_is_not(
    end: Outcome | None, line: Line, redis_url: str
) -> None:
    async with Redis.from_url(redis_url) as store:
        source = line.source()
        await line.add()
        # The keys that a worker has for as long as it runs are there from its first work on.
        (first,) = (await source.settle([], claim=1)).claims
        await source.settle([Settled(first, Done())], claim=0)
        await line.add(attempts=2)
        before = set(await store.keys())
        (claim,) = (await source.settle([], claim=1)).claims
        of_holding = set(await store.keys()) - before

        if end is None:
            await line.lapse_leases()
        else:
            await source.settle([Settled(claim, end)], claim=0)

        # The line that is kept in memory has no keys.
        assert bool(of_holding) == bool(before)
        assert not of_holding & set(await store.keys())
