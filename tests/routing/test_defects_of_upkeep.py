"""The faults of the document around leaders, the registry and what is kept, and not here."""

import pytest

from tests.routing.harness import Harness
from waystation.core.errors import NotLeader
from waystation.core.store.leader import Election
from waystation.routing import Retry
from waystation.routing.redis.keys import SchedulerKeys


async def test_a_leader_renews_its_lock_and_a_late_one_changes_nothing(
    harness: Harness,
) -> None:
    """F-B15 B-31"""
    office = SchedulerKeys("bridge")
    election = Election(harness.redis, office, owner="first")
    term = await election.acquire()
    assert term is not None
    assert await harness.text("bridge:scheduler:lock") == "first"
    await harness.redis.pexpire("bridge:scheduler:lock", 100)
    await election.renew(term)
    assert 15_000 < await harness.redis.pttl("bridge:scheduler:lock") <= 30_000
    frozen = await harness.upkeep(owner="frozen")
    await harness.upkeep(owner="next")
    await harness.add()
    await harness.claim(harness.source())
    await harness.clock.advance(60)

    with pytest.raises(NotLeader):
        await frozen.recover()
    assert await harness.redis.scard("bridge:jobs:active") == 1


async def test_why_a_job_is_dead_is_known_after_a_day(harness: Harness) -> None:
    """F-B17"""
    await harness.add(retry=Retry(attempts=1))
    await harness.fail(harness.source(), ValueError("bad"))
    for key in await harness.keys_like("bridge:jobs:result:*"):
        await harness.redis.delete(key)
    (letter,) = [each async for each in harness.queue.dead_letters]
    assert letter.error.name == "ValueError"


async def test_dispatching_is_one_step_and_dependencies_are_kept(harness: Harness) -> None:
    """F-B18 B-56"""
    # The document's producer saves the data, then pushes the id: cut in between, it is nowhere.
    first = await harness.add()
    calls = await harness.calls("evalsha")
    second = await harness.add(depends_on=(first,))

    assert await harness.calls("evalsha") == calls + 1
    assert await harness.claim_ids(harness.source(), 2) == [first]
    assert await harness.queue.state(second) == "held"
