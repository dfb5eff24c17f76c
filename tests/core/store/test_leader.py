import asyncio

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from waystation.core.clock import HandClock
from waystation.core.errors import InvalidOption, NotLeader, StoreUnreachable
from waystation.core.store.connection import StoreOptions, connect
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.leader import Election, OfficeKeys, Term

KEYS = OfficeKeys("scheduler")


def candidate(redis: Redis, name: str, clock: HandClock | None = None) -> Election:
    return Election(redis, KEYS, owner=name, clock=clock)


async def test_only_one_of_many_candidates_leads(redis: Redis, no_strays: None) -> None:
    terms = await asyncio.gather(*(candidate(redis, f"w{n}").acquire() for n in range(10)))
    winners = [term for term in terms if term]
    assert [term.number for term in winners] == [1]
    assert await redis.get(KEYS.leader) == winners[0].owner.encode()


async def test_asking_again_goes_on_with_the_same_term(redis: Redis) -> None:
    election = candidate(redis, "a")
    assert await election.acquire() == await election.acquire() == Term("a", 1)


async def test_a_leader_whose_number_is_gone_begins_a_new_term(redis: Redis) -> None:
    election = candidate(redis, "a")
    assert await election.acquire() == Term("a", 1)
    await redis.delete(KEYS.terms)
    assert await election.acquire() == Term("a", 1)
    assert await redis.get(KEYS.terms) == b"1"


async def test_a_leader_that_resigns_makes_room_for_a_higher_term(redis: Redis) -> None:
    first, second = candidate(redis, "a"), candidate(redis, "b")
    term = await first.acquire()
    assert term
    assert await second.acquire() is None
    assert await first.resign(term)
    assert await second.acquire() == Term("b", 2)
    assert not await first.resign(term)
    assert await redis.get(KEYS.leader) == b"b"


async def test_a_term_that_ran_out_cannot_be_renewed(redis: Redis) -> None:
    election = candidate(redis, "a")
    term = await election.acquire()
    assert term
    await election.renew(term)
    await redis.delete(KEYS.leader)
    with pytest.raises(NotLeader, match="a does not lead any more"):
        await election.renew(term)


async def test_a_leader_that_wakes_up_late_is_told_that_its_term_is_over(redis: Redis) -> None:
    late = candidate(redis, "a")
    old = await late.acquire()
    assert old
    await redis.delete(KEYS.leader)
    assert await late.acquire() == Term("a", 2)
    with pytest.raises(NotLeader, match="term 1 is over, the current one is 2"):
        await late.renew(old)
    assert not await late.resign(old)


async def test_a_term_has_a_ttl_that_renewal_restores(redis: Redis) -> None:
    election = Election(redis, KEYS, owner="a", ttl_ms=60_000)
    term = await election.acquire()
    assert term
    await redis.pexpire(KEYS.leader, 1000)
    await election.renew(term)
    assert 1000 < await redis.pttl(KEYS.leader) <= 60_000


async def test_numbers_only_grow(redis: Redis) -> None:
    numbers: list[int] = []
    for name in "abcab":
        term = await candidate(redis, name).acquire()
        assert term
        numbers.append(term.number)
        await redis.delete(KEYS.leader)
    assert numbers == [1, 2, 3, 4, 5]


async def test_a_held_term_is_renewed_and_given_up_at_the_end(redis: Redis) -> None:
    clock = HandClock()
    election = candidate(redis, "a", clock)
    term = await election.acquire()
    assert term
    async with election.holding(term):
        for _ in range(7):
            await redis.pexpire(KEYS.leader, 500_000)
            await clock.advance(election.renew_every)
            while await redis.pttl(KEYS.leader) > 30_000:
                await asyncio.sleep(0.001)
    assert await redis.exists(KEYS.leader) == 0


async def test_losing_the_lead_stops_what_the_leader_does(redis: Redis) -> None:
    clock = HandClock()
    election = candidate(redis, "a", clock)
    term = await election.acquire()
    assert term

    async def lead() -> None:
        async with election.holding(term):
            await asyncio.Event().wait()

    async def lead_and_go_on() -> None:
        try:
            await lead()
        finally:
            task = asyncio.current_task()
            assert task
            assert not task.cancelling()

    leading = asyncio.create_task(lead_and_go_on())
    await clock.advance(0)
    await redis.set(KEYS.leader, "b")
    await clock.advance(election.renew_every)
    with pytest.raises(NotLeader, match="term 1 of a is over"):
        await asyncio.wait_for(leading, LIMIT_S)
    assert await redis.get(KEYS.leader) == b"b"


async def test_being_cancelled_is_not_mistaken_for_losing_the_lead(redis: Redis) -> None:
    election = candidate(redis, "a")
    term = await election.acquire()
    assert term

    async def lead() -> None:
        async with election.holding(term):
            await asyncio.Event().wait()

    leading = asyncio.create_task(lead())
    await asyncio.sleep(0.01)
    leading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leading
    assert await redis.exists(KEYS.leader) == 0


async def test_a_full_server_has_a_leader_too(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.config_set("maxmemory", 1)
        assert await candidate(store.redis, "a").acquire() == Term("a", 1)


async def test_a_term_that_ends_while_it_is_left_cancels_nobody(redis: Redis) -> None:
    lost = asyncio.Event()

    class Overthrown(Election):
        async def renew(self, term: Term) -> None:
            lost.set()
            raise NotLeader("somebody else leads")

    clock = HandClock()
    election = Overthrown(redis, KEYS, owner="a", clock=clock)
    term = await election.acquire()
    assert term

    async def lead() -> str:
        async with election.holding(term):
            await lost.wait()
        return "done"

    leading = asyncio.create_task(lead())
    await clock.advance(election.renew_every)
    assert await leading == "done"


async def test_a_leader_cut_off_stops_when_its_term_has_run_out(own_server: Ephemeral) -> None:
    options = StoreOptions(connect_timeout=0.2, call_timeout=0.2)
    async with await connect(own_server.url, options) as store:
        election = Election(store.hot, KEYS, owner="a", ttl_ms=300)
        term = await election.acquire()
        assert term

        async def lead() -> None:
            async with election.holding(term):
                own_server.kill()
                await asyncio.Event().wait()

        with pytest.raises(NotLeader):
            await asyncio.wait_for(lead(), LIMIT_S)
        with pytest.raises(StoreUnreachable):
            await election.acquire()


def test_a_candidate_without_a_name_or_with_no_time_is_refused(redis_url: str) -> None:
    client = Redis.from_url(redis_url)
    with pytest.raises(InvalidOption, match="needs a name"):
        Election(client, KEYS, owner="")
    with pytest.raises(InvalidOption, match="at least 3 ms, got 2"):
        Election(client, KEYS, owner="a", ttl_ms=2)
