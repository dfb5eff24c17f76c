"""Why a job is where it is: what `coverage` and `why` say."""

import pytest

from tests.routing.bridge import Bridge
from tests.routing.hands import Hands
from waystation.core.errors import Unrecoverable
from waystation.routing import (
    BackoffRule,
    JobOptions,
    Lack,
    Limit,
    NewJob,
    Reason,
    Retry,
    Schedule,
    Target,
    Why,
    registry,
)
from waystation.routing.reasons import instant
from waystation.routing.registry import Profile


@pytest.fixture
async def worker(hands: Hands) -> None:
    """Somebody who could do anything."""
    await registry.beat(hands.redis, hands.keys, Profile(server="w1", capabilities=("cpu",)))


async def why(hands: Hands, id: str) -> Reason:
    (reason,) = await hands.queue.why(id)
    return reason


@pytest.mark.usefixtures("worker")
async def test_a_job_that_can_be_served_says_so(hands: Hands) -> None:
    await hands.add()
    id = await hands.add()

    assert (await why(hands, id)).why is Why.READY
    assert (await why(hands, id)).text == "can be taken by 1 live worker, behind 1 job"
    (row,) = await hands.queue.coverage()
    assert (row.served, row.reasons) == (True, ())


@pytest.mark.usefixtures("worker")
async def test_a_paused_type_is_a_reason(hands: Hands) -> None:
    id = await hands.add("email")
    await hands.queue.pause("email")

    (row,) = await hands.queue.coverage()

    assert (row.served, row.workers, row.first) == (False, 1, id)
    assert row.reasons == (await why(hands, id),)
    assert row.reasons[0] == Reason(why=Why.PAUSED, text="type email is paused")


@pytest.mark.usefixtures("worker")
async def test_a_limit_per_minute_says_until_when(hands: Hands) -> None:
    await hands.queue.limits.set("email", Limit(max_per_minute=2))
    *_, id = [await hands.add("email") for _ in range(3)]
    await hands.claim(hands.source(), 9)
    left_ms = await hands.redis.pttl(hands.keys.of_type("email").minute)

    (row,) = await hands.queue.coverage()

    (reason,) = row.reasons
    assert reason.why is Why.LIMITED
    assert reason.until_ms is not None
    assert 0 < reason.until_ms - hands.clock.now_ms() <= left_ms
    until = instant(reason.until_ms)
    assert reason.text == f"limited until {until}: 2 of 2 were started this minute"
    assert (await why(hands, id)).why is Why.LIMITED


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("by_type", [True, False], ids=["of the type", "of the jobs"])
async def test_a_limit_of_running_jobs_says_how_many_run(hands: Hands, by_type: bool) -> None:
    limit = Limit(max_concurrent=1)
    if by_type:
        await hands.queue.limits.set("email", limit)
    *_, id = [await hands.add("email", limit=None if by_type else limit) for _ in range(2)]
    await hands.claim(hands.source(), 9)

    (row,) = await hands.queue.coverage()

    assert row.reasons == (Reason(why=Why.LIMITED, text="limited: 1 of 1 run"),)
    assert await hands.queue.why(id) == list(row.reasons)


@pytest.mark.usefixtures("worker")
async def test_where_nobody_fits_the_nearest_worker_is_named(hands: Hands) -> None:
    await registry.beat(hands.redis, hands.keys, Profile(server="w2", capabilities=("gpu",)))
    id = await hands.add(target=Target(capabilities=("gpu", "tpu"), mode="all"))

    (row,) = await hands.queue.coverage()

    assert (row.nearest, row.missing) == ("w2", ("capability tpu",))
    text = "nobody fits; worker w2 is the nearest, missing: capability tpu"
    lacks = (Lack.CAPABILITIES,)
    assert await hands.queue.why(id) == [Reason(why=Why.UNMATCHED, text=text, lacks=lacks)]
    await hands.queue.pause("email")
    assert [each.why for each in await hands.queue.why(id)] == [Why.PAUSED, Why.UNMATCHED]


async def test_what_others_pushed_is_covered_before_anybody_has_looked(hands: Hands) -> None:
    id = await Bridge(hands.redis).dispatch("x")

    (row,) = await hands.queue.coverage()

    assert (row.first, row.missing) == (id, ("no worker is alive",))
    text = "nobody fits: no worker is alive"
    lacks = (Lack.WORKER,)
    assert await hands.queue.why(id) == [Reason(why=Why.UNMATCHED, text=text, lacks=lacks)]


async def test_the_children_of_a_dead_job_are_reported_however_far_down(hands: Hands) -> None:
    parent = await hands.add("draw", retry=Retry(attempts=1))
    other = await hands.add("rest")
    child = await hands.add("print", depends_on=(parent, other))
    grandchild = await hands.add("post", depends_on=(child,))
    source = hands.source(types=["draw"])
    assert [row.type for row in await hands.queue.coverage()] == ["draw", "rest"]
    await hands.fail(source)

    rows = {row.first: row for row in await hands.queue.coverage() if row.type != "rest"}

    assert set(rows) == {child, grandchild}
    reason = Reason(why=Why.HELD, text=f"waits for job {parent}, which is dead")
    assert [row.reasons for row in rows.values()] == [(reason,), (reason,)]
    assert reason in await hands.queue.why(child)
    assert len(await hands.queue.why(child)) == 2
    assert (await why(hands, grandchild)).text == (
        f"waits for job {child}, which is delayed and waits for job {parent}, which is dead"
    )
    await hands.queue.dead_letters.retry(parent)
    assert {row.type for row in await hands.queue.coverage()} == {"draw", "rest"}


async def test_the_children_of_a_dead_letter_that_is_dropped_are_dead_as_well(hands: Hands) -> None:
    await hands.redis.set(hands.keys.deadletter_cap, 2)
    parent = await hands.add(retry=Retry(attempts=1))
    child = await hands.add("print", depends_on=(parent,))
    await hands.fail(hands.source())
    for _ in range(2):
        await hands.add(retry=Retry(attempts=1))
        await hands.fail(hands.source())

    text = f"job {parent} was dropped from the dead letter list, which was full"
    assert text in (await why(hands, child)).text
    assert await hands.redis.exists(hands.keys.held, hands.keys.awaited, hands.keys.ended) == 0


async def test_very_many_children_of_dead_jobs_are_counted(hands: Hands) -> None:
    parent = await hands.add("draw", retry=Retry(attempts=1))
    for _ in range(3):
        await hands.queue.add_many([NewJob("print", None, JobOptions(depends_on=(parent,)))] * 400)
    await hands.fail(hands.source(types=["draw"]))

    (row,) = await hands.queue.coverage()

    assert (row.type, row.waiting) == ("print", 1_200)


async def test_a_job_that_runs_says_where_and_since_when(hands: Hands) -> None:
    id, since = await hands.add(), hands.clock.now_ms()
    await hands.claim(hands.source("worker-7"))

    text = f"worker worker-7 has it since {instant(since)}"
    assert await hands.queue.why(id) == [Reason(why=Why.ACTIVE, text=text, worker="worker-7")]
    other = await hands.add()
    await Bridge(hands.redis, literal=True).claim("old one")
    assert (await why(hands, other)).text == "worker old one has it"


@pytest.mark.usefixtures("worker")
async def test_a_job_that_somebody_has_locked_in_line_says_so(hands: Hands) -> None:
    id = await hands.add()
    await hands.redis.set(hands.keys.of(id).lock, "somebody", ex=1_000)

    reason = await why(hands, id)

    assert reason.why is Why.LOCKED
    assert reason.text.startswith("somebody has locked it for another ")


async def test_what_waits_for_its_time_says_until_when(hands: Hands) -> None:
    now = hands.clock.now_ms()
    later = await hands.add(schedule=Schedule(delay=5))
    nightly = await hands.add(schedule=Schedule(cron="* * * * *"))

    assert await hands.queue.why(later) == [
        Reason(why=Why.DELAYED, text=f"due at {instant(now + 5_000)}", until_ms=now + 5_000)
    ]
    assert (await why(hands, nightly)).why is Why.SCHEDULED


async def test_a_cancelled_job_is_told_from_one_that_is_tried_again(hands: Hands) -> None:
    backoff = BackoffRule(type="fixed", delay=9)
    again = await hands.add(retry=Retry(attempts=3, backoff=backoff))
    await hands.fail(hands.source(), OSError("not now"))
    stopped, now = await hands.add(), hands.clock.now_ms()
    await hands.queue.cancel(stopped)

    assert await hands.queue.state(again) == "delayed"
    assert await hands.queue.state(stopped) == "failed"
    due = instant(now + 9_000)
    assert (await why(hands, again)).text == (
        f"attempt 1 of 3 failed (OSError: not now), the next one is due at {due}"
    )
    assert await hands.queue.why(stopped) == [
        Reason(why=Why.CANCELLED, text=f"cancelled at {instant(now)}")
    ]


async def test_a_job_that_has_ended_says_how(hands: Hands) -> None:
    source, now = hands.source(), hands.clock.now_ms()
    done = await hands.add()
    await hands.settle(source, (await hands.claim(source))[0])
    dead = await hands.add()
    await hands.fail(source, Unrecoverable("no such address"))

    assert await hands.queue.why(done) == [
        Reason(why=Why.COMPLETED, text=f"completed at {instant(now)}")
    ]
    assert (await why(hands, dead)).text == (
        "dead after 1 attempt: UNRECOVERABLE, Unrecoverable: no such address"
    )
    assert await hands.queue.why("nobody") == []


async def test_a_type_is_known_by_its_workers_and_its_jobs(hands: Hands) -> None:
    await registry.beat(hands.redis, hands.keys, Profile(server="w1", types=("email",)))
    await hands.add("sms", schedule=Schedule(delay=60))

    known = [await hands.queue.knows(type) for type in ("email", "sms", "emial")]

    assert known == [True, True, False]


@pytest.mark.parametrize("junk", ["{", "[]", "7", "null"])
async def test_what_others_wrote_carelessly_hides_no_reason(hands: Hands, junk: str) -> None:
    for state in ("waiting", "failed", "dead", "completed", "odd"):
        await hands.redis.set(hands.keys.of(state).status, state)
        await hands.redis.set(hands.keys.of(state).data, junk)
        await hands.redis.set(hands.keys.of(state).result, junk, ex=86_400)
        await hands.redis.hset(hands.keys.meta, state, junk)

    found = [await hands.queue.why(state) for state in ("waiting", "failed", "dead", "completed")]

    assert [[each.why for each in reasons] for reasons in found] == [
        [],
        [Why.FAILED],
        [Why.DEAD],
        [Why.COMPLETED],
    ]
