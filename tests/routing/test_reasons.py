"""Why a job is where it is: what `coverage` and `why` say."""

import pytest

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
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
async def worker(harness: Harness) -> None:
    """Somebody who could do anything."""
    await registry.beat(harness.redis, harness.keys, Profile(server="w1", capabilities=("cpu",)))


async def why(harness: Harness, id: str) -> Reason:
    (reason,) = await harness.queue.why(id)
    return reason


@pytest.mark.usefixtures("worker")
async def test_a_job_that_can_be_served_says_so(harness: Harness) -> None:
    await harness.add()
    id = await harness.add()

    assert (await why(harness, id)).why is Why.READY
    assert (await why(harness, id)).text == "can be taken by 1 live worker, behind 1 job"
    (row,) = await harness.queue.coverage()
    assert (row.served, row.reasons) == (True, ())


@pytest.mark.usefixtures("worker")
async def test_a_paused_type_is_a_reason(harness: Harness) -> None:
    id = await harness.add("email")
    await harness.queue.pause("email")

    (row,) = await harness.queue.coverage()

    assert (row.served, row.workers, row.first) == (False, 1, id)
    assert row.reasons == (await why(harness, id),)
    assert row.reasons[0] == Reason(why=Why.PAUSED, text="type email is paused")


@pytest.mark.usefixtures("worker")
async def test_a_limit_per_minute_says_until_when(harness: Harness) -> None:
    await harness.queue.limits.set("email", Limit(max_per_minute=2))
    *_, id = [await harness.add("email") for _ in range(3)]
    await harness.claim(harness.source(), 9)
    left_ms = await harness.redis.pttl(harness.keys.of_type("email").minute)

    (row,) = await harness.queue.coverage()

    (reason,) = row.reasons
    assert reason.why is Why.LIMITED
    assert reason.until_ms is not None
    assert 0 < reason.until_ms - harness.clock.now_ms() <= left_ms
    until = instant(reason.until_ms)
    assert reason.text == f"limited until {until}: 2 of 2 were started this minute"
    assert (await why(harness, id)).why is Why.LIMITED


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("by_type", [True, False], ids=["of the type", "of the jobs"])
async def test_a_limit_of_running_jobs_says_how_many_run(harness: Harness, by_type: bool) -> None:
    limit = Limit(max_concurrent=1)
    if by_type:
        await harness.queue.limits.set("email", limit)
    *_, id = [await harness.add("email", limit=None if by_type else limit) for _ in range(2)]
    await harness.claim(harness.source(), 9)

    (row,) = await harness.queue.coverage()

    assert row.reasons == (Reason(why=Why.LIMITED, text="limited: 1 of 1 run"),)
    assert await harness.queue.why(id) == list(row.reasons)


@pytest.mark.usefixtures("worker")
async def test_where_nobody_fits_the_nearest_worker_is_named(harness: Harness) -> None:
    await registry.beat(harness.redis, harness.keys, Profile(server="w2", capabilities=("gpu",)))
    id = await harness.add(target=Target(capabilities=("gpu", "tpu"), mode="all"))

    (row,) = await harness.queue.coverage()

    assert (row.nearest, row.missing) == ("w2", ("capability tpu",))
    text = "nobody fits; worker w2 is the nearest, missing: capability tpu"
    lacks = (Lack.CAPABILITIES,)
    assert await harness.queue.why(id) == [Reason(why=Why.UNMATCHED, text=text, lacks=lacks)]
    await harness.queue.pause("email")
    assert [each.why for each in await harness.queue.why(id)] == [Why.PAUSED, Why.UNMATCHED]


async def test_what_others_pushed_is_covered_before_anybody_has_looked(harness: Harness) -> None:
    id = await Bridge(harness.redis).dispatch("x")

    (row,) = await harness.queue.coverage()

    assert (row.first, row.missing) == (id, ("no worker is alive",))
    text = "nobody fits: no worker is alive"
    lacks = (Lack.WORKER,)
    assert await harness.queue.why(id) == [Reason(why=Why.UNMATCHED, text=text, lacks=lacks)]


async def test_the_children_of_a_dead_job_are_reported_however_far_down(harness: Harness) -> None:
    parent = await harness.add("draw", retry=Retry(attempts=1))
    other = await harness.add("rest")
    child = await harness.add("print", depends_on=(parent, other))
    grandchild = await harness.add("post", depends_on=(child,))
    source = harness.source(types=["draw"])
    assert [row.type for row in await harness.queue.coverage()] == ["draw", "rest"]
    await harness.fail(source)

    rows = {row.first: row for row in await harness.queue.coverage() if row.type != "rest"}

    assert set(rows) == {child, grandchild}
    reason = Reason(why=Why.HELD, text=f"waits for job {parent}, which is dead")
    assert [row.reasons for row in rows.values()] == [(reason,), (reason,)]
    assert reason in await harness.queue.why(child)
    assert len(await harness.queue.why(child)) == 2
    assert (await why(harness, grandchild)).text == (
        f"waits for job {child}, which is delayed and waits for job {parent}, which is dead"
    )
    await harness.queue.dead_letters.retry(parent)
    assert {row.type for row in await harness.queue.coverage()} == {"draw", "rest"}


async def test_the_children_of_a_dead_letter_that_is_dropped_are_dead_as_well(
    harness: Harness,
) -> None:
    await harness.redis.set(harness.keys.deadletter_cap, 2)
    parent = await harness.add(retry=Retry(attempts=1))
    child = await harness.add("print", depends_on=(parent,))
    await harness.fail(harness.source())
    for _ in range(2):
        await harness.add(retry=Retry(attempts=1))
        await harness.fail(harness.source())

    text = f"job {parent} was dropped from the dead letter list, which was full"
    assert text in (await why(harness, child)).text
    assert (
        await harness.redis.exists(harness.keys.held, harness.keys.awaited, harness.keys.ended) == 0
    )


async def test_very_many_children_of_dead_jobs_are_counted(harness: Harness) -> None:
    parent = await harness.add("draw", retry=Retry(attempts=1))
    for _ in range(3):
        await harness.queue.add_many(
            [NewJob("print", None, JobOptions(depends_on=(parent,)))] * 400
        )
    await harness.fail(harness.source(types=["draw"]))

    (row,) = await harness.queue.coverage()

    assert (row.type, row.waiting) == ("print", 1_200)


async def test_a_job_that_runs_says_where_and_since_when(harness: Harness) -> None:
    id, since = await harness.add(), harness.clock.now_ms()
    await harness.claim(harness.source("worker-7"))

    text = f"worker worker-7 has it since {instant(since)}"
    assert await harness.queue.why(id) == [Reason(why=Why.ACTIVE, text=text, worker="worker-7")]
    other = await harness.add()
    await Bridge(harness.redis, literal=True).claim("old one")
    assert (await why(harness, other)).text == "worker old one has it"


@pytest.mark.usefixtures("worker")
async def test_a_job_that_somebody_has_locked_in_line_says_so(harness: Harness) -> None:
    id = await harness.add()
    await harness.redis.set(harness.keys.of(id).lock, "somebody", ex=1_000)

    reason = await why(harness, id)

    assert reason.why is Why.LOCKED
    assert reason.text.startswith("somebody has locked it for another ")


async def test_what_waits_for_its_time_says_until_when(harness: Harness) -> None:
    now = harness.clock.now_ms()
    later = await harness.add(schedule=Schedule(delay=5))
    nightly = await harness.add(schedule=Schedule(cron="* * * * *"))

    assert await harness.queue.why(later) == [
        Reason(why=Why.DELAYED, text=f"due at {instant(now + 5_000)}", until_ms=now + 5_000)
    ]
    assert (await why(harness, nightly)).why is Why.SCHEDULED


async def test_a_cancelled_job_is_told_from_one_that_is_tried_again(harness: Harness) -> None:
    backoff = BackoffRule(type="fixed", delay=9)
    again = await harness.add(retry=Retry(attempts=3, backoff=backoff))
    await harness.fail(harness.source(), OSError("not now"))
    stopped, now = await harness.add(), harness.clock.now_ms()
    await harness.queue.cancel(stopped)

    assert await harness.queue.state(again) == "delayed"
    assert await harness.queue.state(stopped) == "failed"
    due = instant(now + 9_000)
    assert (await why(harness, again)).text == (
        f"attempt 1 of 3 failed (OSError: not now), the next one is due at {due}"
    )
    assert await harness.queue.why(stopped) == [
        Reason(why=Why.CANCELLED, text=f"cancelled at {instant(now)}")
    ]


async def test_a_job_that_has_ended_says_how(harness: Harness) -> None:
    source, now = harness.source(), harness.clock.now_ms()
    done = await harness.add()
    await harness.settle(source, (await harness.claim(source))[0])
    dead = await harness.add()
    await harness.fail(source, Unrecoverable("no such address"))

    assert await harness.queue.why(done) == [
        Reason(why=Why.COMPLETED, text=f"completed at {instant(now)}")
    ]
    assert (await why(harness, dead)).text == (
        "dead after 1 attempt: UNRECOVERABLE, Unrecoverable: no such address"
    )
    assert await harness.queue.why("nobody") == []


async def test_a_type_is_known_by_its_workers_and_its_jobs(harness: Harness) -> None:
    await registry.beat(harness.redis, harness.keys, Profile(server="w1", types=("email",)))
    await harness.add("sms", schedule=Schedule(delay=60))

    known = [await harness.queue.knows(type) for type in ("email", "sms", "emial")]

    assert known == [True, True, False]


@pytest.mark.parametrize("junk", ["{", "[]", "7", "null"])
async def test_what_others_wrote_carelessly_hides_no_reason(harness: Harness, junk: str) -> None:
    for state in ("waiting", "failed", "dead", "completed", "odd"):
        await harness.redis.set(harness.keys.of(state).status, state)
        await harness.redis.set(harness.keys.of(state).data, junk)
        await harness.redis.set(harness.keys.of(state).result, junk, ex=86_400)
        await harness.redis.hset(harness.keys.meta, state, junk)

    found = [await harness.queue.why(state) for state in ("waiting", "failed", "dead", "completed")]

    assert [[each.why for each in reasons] for reasons in found] == [
        [],
        [Why.FAILED],
        [Why.DEAD],
        [Why.COMPLETED],
    ]
