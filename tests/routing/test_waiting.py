"""The list, the set and the sorted sets that jobs move through."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.routing.harness import Harness
from waystation.core.errors import NotFound, Unrecoverable
from waystation.core.outcome import Failed, Returned
from waystation.core.runtime.claim import Claim, Settled
from waystation.routing import BackoffRule, Job, JobOptions, NewJob, Retry, Schedule, Target


async def test_waiting_jobs_are_a_list_first_in_first_out(harness: Harness) -> None:
    """B-17 B-18 B-20 B-65"""
    ids = [await harness.add() for _ in range(5)]

    assert await harness.redis.type("bridge:jobs:waiting") == b"list"
    assert await harness.waiting() == ids
    assert await harness.claim_ids(harness.source(), 5) == ids


async def test_urgent_jobs_stand_before_the_others_and_first_in_first_out(harness: Harness) -> None:
    """B-19 F-B9"""
    normal = [await harness.add(priority=6) for _ in range(2)]
    urgent = [await harness.add(priority=priority) for priority in (7, 10, 8)]

    assert await harness.waiting() == urgent + normal
    assert await harness.claim_ids(harness.source(), 5) == urgent + normal


async def test_every_way_back_into_the_line_keeps_the_lane(harness: Harness) -> None:
    """F-B9"""
    later = await harness.add(priority=9, schedule=Schedule(delay=1))
    again = await harness.add(priority=9, retry=Retry(backoff=BackoffRule(delay=0)))
    source = harness.source()
    await harness.add(priority=5)
    await harness.fail(source)
    await harness.clock.advance(1)

    assert await harness.claim_ids(source, 2) == [again, later]
    await harness.lapse()

    assert (await harness.waiting())[:2] == [again, later]


async def test_active_jobs_are_a_set_while_they_run(harness: Harness) -> None:
    """B-21 B-65"""
    good, bad = await harness.add(), await harness.add(retry=Retry(attempts=1))
    source = harness.source()
    claims = await harness.claim(source, 2)
    assert await harness.redis.type("bridge:jobs:active") == b"set"
    assert await harness.redis.smembers("bridge:jobs:active") == {good.encode(), bad.encode()}

    await harness.settle(source, claims[0])
    await harness.settle(source, claims[1], Failed(RuntimeError("no")))

    assert await harness.redis.exists("bridge:jobs:active") == 0


async def test_a_delayed_job_is_scored_by_the_instant_it_may_run(harness: Harness) -> None:
    """B-22 B-56 B-65"""
    now = harness.clock.now_ms()
    soon = await harness.add(schedule=Schedule(delay=5))
    then = await harness.add(
        schedule=Schedule(run_at=datetime.fromtimestamp((now + 9_000) / 1000, UTC))
    )

    found = await harness.redis.zrange("bridge:jobs:delayed", 0, -1, withscores=True)

    assert found == [(soon.encode(), now + 5_000), (then.encode(), now + 9_000)]


async def test_a_delayed_job_waits_until_its_time_has_come(harness: Harness) -> None:
    """B-23"""
    id = await harness.add(schedule=Schedule(delay=5))
    upkeep = await harness.upkeep()
    await harness.clock.advance(4.999)
    assert await upkeep.promote_due() == 0
    await harness.clock.advance(0.001)

    assert await upkeep.promote_due() == 1
    assert await harness.waiting() == [id]


async def test_a_schedule_is_scored_by_its_next_slot(harness: Harness) -> None:
    """B-24 B-56"""
    id = await harness.add(schedule=Schedule(cron="* * * * *"))

    score = await harness.redis.zscore("bridge:jobs:cron", id)

    assert score is not None
    assert score % 60_000 == 0
    assert 0 < score - harness.clock.now_ms() <= 60_000


async def test_a_job_is_dead_when_its_attempts_are_used_up(harness: Harness) -> None:
    """B-26 B-27 B-58 B-62 B-63"""
    id = await harness.add(retry=Retry(attempts=2, backoff=BackoffRule(delay=0)))
    source = harness.source()
    await harness.fail(source)
    assert await harness.redis.llen("bridge:jobs:deadletter") == 0
    await harness.fail(source)

    assert await harness.redis.type("bridge:jobs:deadletter") == b"list"
    assert await harness.redis.lrange("bridge:jobs:deadletter", 0, -1) == [id.encode()]
    assert not await harness.claim(source)


async def test_an_unrecoverable_error_or_a_skipped_one_is_final_at_once(harness: Harness) -> None:
    """B-27"""
    source = harness.source()
    await harness.add()
    await harness.fail(source, Unrecoverable("no"))
    await harness.add(retry=Retry(attempts=9, skip_on=("LookupError",)))
    await harness.fail(source, KeyError("a LookupError too"))

    letters = [letter async for letter in harness.queue.dead_letters]

    assert [(letter.error.name, letter.attempts) for letter in letters] == [
        ("KeyError", 1),
        ("Unrecoverable", 1),
    ]


async def test_a_dead_job_keeps_its_reason_after_its_result_is_gone(harness: Harness) -> None:
    """F-B17"""
    id = await harness.add(retry=Retry(attempts=1))
    await harness.fail(harness.source("worker-9"), ValueError("bad address"))
    await harness.redis.delete(f"bridge:jobs:result:{id}")

    (letter,) = [each async for each in harness.queue.dead_letters]

    assert (letter.id, letter.reason, letter.worker) == (id, "FAILED", "worker-9")
    assert letter.error.message == "bad address"


async def test_the_dead_letter_list_is_capped_and_says_what_it_drops(harness: Harness) -> None:
    """F-B17"""
    await harness.redis.set("bridge:jobs:deadletter:cap", 2)
    source = harness.source()
    ids = [await harness.add(retry=Retry(attempts=1)) for _ in range(3)]
    for _ in ids:
        await harness.fail(source)

    assert await harness.redis.llen("bridge:jobs:deadletter") == 2
    assert (await harness.event_names(ids[0]))[-1] == "removed"
    assert await harness.queue.get_job(ids[0]) is None


async def test_purged_jobs_are_gone(harness: Harness) -> None:
    id = await harness.add(retry=Retry(attempts=1))
    await harness.fail(harness.source())
    dead = harness.queue.dead_letters

    assert await dead.purge() == 1

    assert await harness.queue.state(id) is None
    assert await harness.keys_like(f"*{id}*") == []


async def test_work_handed_back_is_where_it_was(harness: Harness) -> None:
    ids = [await harness.add(priority=priority) for priority in (5, 9, 5, 9)]
    source = harness.source()
    claims = await harness.claim(source, 4)
    expected = [ids[1], ids[3], ids[0], ids[2]]

    await source.settle([Settled(claim, Returned()) for claim in reversed(claims)], claim=0)

    assert await harness.waiting() == expected
    assert await harness.claim_ids(source, 4) == expected


@pytest.mark.parametrize("state", ["waiting", "active", "delayed", "cron", "held"])
async def test_a_cancelled_job_does_not_run_wherever_it_was(harness: Harness, state: str) -> None:
    source = harness.source()
    other = await harness.add(target=Target(server="absent"))
    options: dict[str, dict[str, Any]] = {
        "delayed": {"schedule": Schedule(delay=0.001)},
        "cron": {"schedule": Schedule(cron="* * * * *")},
        "held": {"depends_on": (other,)},
    }
    id = await harness.add(**options.get(state, {}))
    claims: Sequence[Claim[Job]] = ()
    if state == "active":
        claims = await harness.claim(source)

    assert await harness.queue.cancel(id) == 1
    assert await harness.queue.cancel(id) == 0

    for claim in claims:
        assert await harness.settle(source, claim)
    await harness.clock.advance(120)
    await (await harness.upkeep()).fire_schedules()
    assert not await harness.claim(source)
    assert await harness.queue.state(id) == "failed"
    result = await harness.queue.result(id)
    assert result is not None
    assert result.error is not None
    assert result.error.name == "CancelledByCaller"


async def test_the_same_idempotency_key_makes_one_job(harness: Harness) -> None:
    first = await harness.add(idempotency_key="order-7")
    second = await harness.add(idempotency_key="order-7")

    assert first == second
    assert await harness.redis.llen("bridge:jobs:waiting") == 1
    assert 86_000 < await harness.redis.ttl("bridge:jobs:idempotency:order-7") <= 86_400


async def test_a_refusal_among_very_many_says_how_many_were_taken(harness: Harness) -> None:
    late = NewJob("email", {}, JobOptions(depends_on=("nobody",)))
    with pytest.raises(NotFound) as refused:
        await harness.queue.add_many([*[NewJob("email")] * 500, NewJob("email"), late])
    assert refused.value.__notes__ == ["at least 500 of 502 jobs had been added"]
    assert await harness.queue.counts("waiting") == {"waiting": 500}
