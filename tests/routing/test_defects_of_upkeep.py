"""The faults of the document around leaders, the registry and what is kept, and not here."""

import pytest

from tests.routing.hands import Hands
from waystation.core.errors import NotLeader
from waystation.core.store.leader import Election
from waystation.routing import NewJob, Retry
from waystation.routing.redis.keys import SchedulerKeys

MINUTE = 60_000


async def test_a_leader_renews_its_lock_and_a_late_one_changes_nothing(
    hands: Hands,
) -> None:
    """F-B15 B-31"""
    office = SchedulerKeys("bridge")
    election = Election(hands.redis, office, owner="first")
    term = await election.acquire()
    assert term is not None
    assert await hands.text("bridge:scheduler:lock") == "first"
    await hands.redis.pexpire("bridge:scheduler:lock", 100)
    await election.renew(term)
    assert 15_000 < await hands.redis.pttl("bridge:scheduler:lock") <= 30_000
    frozen = await hands.upkeep(owner="frozen")
    await hands.upkeep(owner="next")
    await hands.add()
    await hands.claim(hands.source())
    await hands.clock.advance(60)

    with pytest.raises(NotLeader):
        await frozen.recover()
    assert await hands.redis.scard("bridge:jobs:active") == 1


async def test_why_a_job_is_dead_is_known_after_a_day(hands: Hands) -> None:
    """F-B17"""
    await hands.add(retry=Retry(attempts=1))
    await hands.fail(hands.source(), ValueError("bad"))
    for key in await hands.keys_like("bridge:jobs:result:*"):
        await hands.redis.delete(key)
    (letter,) = [each async for each in hands.queue.dead_letters]
    assert letter.error.name == "ValueError"


async def test_dispatching_is_one_step_and_dependencies_are_kept(hands: Hands) -> None:
    """F-B18 B-56"""
    # The document's producer saves the data, then pushes the id: cut in between, it is nowhere.
    first = await hands.add()
    calls = await hands.calls("evalsha")
    second = await hands.add(depends_on=(first,))

    assert await hands.calls("evalsha") == calls + 1
    assert await hands.claim_ids(hands.source(), 2) == [first]
    assert await hands.queue.state(second) == "held"


async def test_a_paused_type_at_the_head_hides_nothing(hands: Hands) -> None:
    """F-B19"""
    await hands.queue.pause("sms")
    await hands.queue.add_many([NewJob("sms")] * 500)
    fits = await hands.add()
    assert await hands.claim_ids(hands.source()) == [fits]


async def test_a_long_job_keeps_its_lease(hands: Hands) -> None:
    """F-B20"""
    id = await hands.add()
    source = hands.source()
    claims = await hands.claim(source)
    upkeep = await hands.upkeep()
    async with source.keeper() as extend:
        for _ in range(6):
            await hands.clock.advance(10)
            assert not await extend(claims)
            assert await upkeep.recover() == []
    assert not await hands.settle(source, claims[0])
    assert await hands.queue.state(id) == "completed"
