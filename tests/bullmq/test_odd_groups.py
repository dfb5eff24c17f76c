"""Groups with names, costs and settings that nobody expects, and groups that lose their jobs."""

import itertools
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from tests.bullmq.harness import Harness
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import LEAST_SHARE as LEAST
from waystation.bullmq.options import MOST_SHARE as MOST
from waystation.bullmq.options import Group, JobOptions
from waystation.bullmq.queue import Queue
from waystation.bullmq.redis import scripts
from waystation.bullmq.scheduling.schedule import Schedule
from waystation.core.errors import JobRateLimited, JobWaiting
from waystation.core.outcome import Done, Failed, Returned
from waystation.core.runtime.claim import Settled

HOUR = timedelta(hours=1)


async def names(harness: Harness, many: int = 50) -> list[str]:
    return [claim.work.name for claim in await harness.claim(many)]


async def groups_held(harness: Harness) -> int:
    return await harness.redis.zcard(harness.keys.groups_held)


# Names

ODD = (
    *("arrivals", "#", "*", "*/*", "/", "a/b", "a:b", "{a}", "%2F", "%", "[^a]*", " "),
    *("ü", "\0", "0", "ready", "past", "held", "jobs", "sizes"),
    *("settings", "clock", "marker", "de", "x" * 200),
)  # fmt: skip


@pytest.mark.parametrize("id", ODD)
async def test_a_group_may_have_any_name(id: str, queue: Queue, harness: Harness) -> None:
    groups = (Group(id), Group("key", parent=id, cost=1.5), Group(id, parent="acme", cost=2.5))
    for group in groups:
        await queue.groups.set(group, concurrency=5, rate=Limit(1000, HOUR))
    order: list[str] = []
    for n in range(4):
        # Some of the first ones have been started when the last ones come.
        for group in groups:
            await queue.add(f"{group.path} {n}", group=group)
        order += await done(harness, 2)
    assert await queue.groups.count() > 0
    while some := await done(harness, 2):
        order += some

    for group in groups:
        own = [name for name in order if name.startswith(f"{group.path} ")]
        assert own == [f"{group.path} {n}" for n in range(4)]
    assert await queue.groups.list() == []
    left = await harness.call("KEYS", f"{harness.keys.base}groups*")
    kinds = {key.decode().removeprefix(harness.keys.base).split(":")[1] for key in left}
    assert kinds <= {"settings", "marker", "spent", "freed"}


@pytest.mark.parametrize("parent", ODD)
async def test_jobs_are_added_whatever_the_time_of_a_parent_is(
    parent: str, queue: Queue, harness: Harness
) -> None:
    key = Group("key", parent=parent, cost=0.3)
    for _ in range(5):
        await queue.add("before", group=key)
    for _ in range(4):
        await done(harness, 1)
        assert await queue.add("after", group=key)


async def done(harness: Harness, many: int) -> list[str]:
    claims = await harness.claim(many)
    reply = await harness.worker.settle([Settled(claim, Done(1)) for claim in claims], claim=0)
    assert not reply.refused
    return [claim.work.name for claim in claims]


# Costs, weights and limits


@pytest.mark.parametrize(
    ("cost", "weight", "rate"),
    [
        *itertools.product(
            (LEAST, 1, MOST),
            (LEAST, 1, MOST),
            (Limit(1, 0.001), Limit(1, timedelta(days=3650)), Limit(2**53, timedelta(days=1))),
        )
    ],
)
async def test_no_number_makes_a_job_get_lost(
    cost: float, weight: float, rate: Limit, queue: Queue, harness: Harness
) -> None:
    group = Group("acme", cost=cost)
    await queue.groups.set("acme", rate=rate, weight=weight, budget=MOST)
    await queue.add("first", group=group)
    claim = await harness.claim_one()
    await claim.work.charge(MOST)
    await queue.add("second", group=group)
    await names(harness)
    assert await harness.complete(claim) is None
    assert sum((await queue.counts("waiting", "active", "completed")).values()) == 2

    await queue.groups.reset("acme")
    waiting = (await queue.groups.get("acme")).waiting
    assert len(await harness.claim()) == waiting


ODD_VALUES = ("0", "-1", "1e999", '"x"', "true", "[]", "null", "1e300", "1e-300")


@pytest.mark.parametrize("text", ODD_VALUES)
@pytest.mark.parametrize("name", ["max", "duration", "concurrency", "budget", "weight", "maxSize"])
async def test_settings_that_another_client_has_written_lose_no_job(
    name: str, text: str, queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", rate=Limit(5, 3600), concurrency=5, budget=5, weight=2)
    stored = await harness.call("HGET", harness.keys.groups_settings, "acme")
    for _ in range(2):
        await queue.add("work", group="acme")
    claim = await harness.claim_one()
    changed = f'{stored.decode()[:-1]},"{name}":{text}}}'
    await harness.call("HSET", harness.keys.groups_settings, "acme", changed)
    await claim.work.charge(7)
    await harness.complete(claim)

    await names(harness)

    await queue.groups.get("acme")
    assert await queue.counts("completed") == {"completed": 1}
    assert sum((await queue.counts("waiting", "active")).values()) == 1


@pytest.mark.parametrize("huge", [Group("huge", cost=MOST, weight=LEAST), Group("huge", cost=MOST)])
async def test_whatever_one_job_costs_the_others_go_on_taking_turns(
    huge: Group, queue: Queue, harness: Harness
) -> None:
    # The second one starts behind the first, so that the time of all is as large as it gets.
    await queue.add_many([("huge", n, JobOptions(group=huge)) for n in range(3)])
    assert await names(harness, 2) == ["huge", "huge"]
    for _ in range(3):
        await queue.add("plain")
        await queue.add("a", group="acme")
        await queue.add("b", group="bell")
        await queue.add("c", group=Group("key", parent="cord"))

    for _ in range(3):
        assert sorted(await names(harness, 4)) == ["a", "b", "c", "plain"]


async def test_groups_at_a_limit_keep_one_call_short_and_nobody_behind_them_waiting(
    queue: Queue, harness: Harness
) -> None:
    many = 3000
    await queue.groups.set_for_all(rate=Limit(1, HOUR))
    await queue.groups.set("last", rate=Limit(1000, HOUR))
    for n in range(2):
        rows = [(f"{n}", n, JobOptions(group=f"group-{each}")) for each in range(many)]
        await queue.add_many(rows)
    last = JobOptions(group=Group("last", cost=9))
    await queue.add_many([("last", n, last) for n in range(2)])
    for want in (*[100] * 30, 1):
        assert len(await harness.claim(want)) == want

    found: list[str] = []
    for _ in range(10):
        before = await groups_held(harness)
        settled = await settle(harness, 1)
        assert await groups_held(harness) - before <= 1100
        found += settled.claims[::2]
        if found:
            break
        assert settled.due_in_ms == 1, "the next call follows at once"
    assert len(found) == 1


async def settle(harness: Harness, want: int) -> scripts.replies.Settlement:
    return await scripts.settle(
        harness.store.hot,
        harness.keys,
        now=harness.clock.now_ms(),
        token="t",
        lease_ms=1000,
        want=want,
        worker="w",
        max="",
        duration="",
        metrics="",
        outcomes=[],
    )


# What a job costs in truth


async def test_what_a_job_did_not_need_lets_the_next_one_start(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", rate=Limit(100, HOUR), budget=100)
    for _ in range(2):
        await queue.add("work", group=Group("acme", cost=100))
    claim = await harness.claim_one()
    assert await names(harness) == []

    await claim.work.charge(1)
    assert await names(harness) == []
    await queue.groups.set("acme", rate=Limit(200, HOUR), budget=200)
    await claim.work.charge(0.5)

    assert await names(harness) == ["work"]


async def test_a_charge_below_what_was_thought_ends_the_wait_of_a_smaller_job(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", rate=Limit(100, HOUR))
    await queue.add("large", group=Group("acme", cost=100))
    await queue.add("small", group=Group("acme", cost=50))
    claim = await harness.claim_one()
    assert await names(harness) == []

    await claim.work.charge(10)

    assert await names(harness) == ["small"]


async def test_a_paused_group_stays_paused_when_a_job_costs_less(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("first", group=Group("acme", cost=100))
    await queue.add("second", group="acme")
    claim = await harness.claim_one()
    await queue.groups.pause("acme")
    assert await names(harness) == []

    await claim.work.charge(10)

    assert await names(harness) == []


@pytest.mark.parametrize("error", [JobRateLimited(), JobWaiting(), None])
async def test_a_job_that_was_not_run_has_spent_nothing(
    error: Exception | None, queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", rate=Limit(100, HOUR), budget=100)
    await queue.add("work", group=Group("key", parent="acme", cost=100))
    for _ in range(3):
        claim = await harness.claim_one()
        assert (await queue.groups.get("acme")).spent_today == 100
        if isinstance(error, JobWaiting):
            await claim.work.move_to_wait()
        else:
            await harness.end(claim, Failed(error) if error else Returned())
        state = await queue.groups.get("acme")
        assert (state.spent, state.spent_today, state.held_by) == (0, 0, None)


async def test_a_charge_to_a_parent_that_is_empty_leaves_nothing_there(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("other", group="bell")
    await queue.add("work", group=Group("key", parent="acme"))
    claim, _ = await harness.claim(2)
    await queue.add("other", group="bell")

    await claim.work.charge(10)

    assert await harness.call("KEYS", "*groups:*acme*") == []


async def test_what_a_job_of_an_earlier_window_did_not_need_is_no_room_in_a_later_one(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", rate=Limit(100, HOUR))
    for name in ("early", "late", "later"):
        await queue.add(name, group=Group("acme", cost=100))
    early = await harness.claim_one()
    await pass_window(harness)
    assert await names(harness) == ["late"]

    await early.work.charge(1)

    assert await names(harness) == []
    assert (await queue.groups.get("acme")).spent == 100


async def pass_window(harness: Harness) -> None:
    await harness.redis.delete(f"{harness.keys.base}groups:spent:acme")
    await harness.clock.advance(3600)


# Jobs that end otherwise


async def test_a_cancelled_job_makes_room_at_once(queue: Queue, harness: Harness) -> None:
    await queue.groups.set("acme", concurrency=1)
    for name in ("first", "second"):
        await queue.add(name, group="acme")
    claim = await harness.claim_one()
    assert await names(harness) == []

    await claim.work.cancel()

    assert await names(harness) == ["second"]
    assert await active(harness) == 1


@pytest.mark.parametrize("how", ["cancel", "clean", "remove"])
async def test_a_job_that_is_taken_out_while_active_is_counted_no_longer(
    how: str, queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", concurrency=5)
    await queue.add("work", group="acme")
    claim = await harness.claim_one()
    if how != "cancel":
        await harness.redis.delete(harness.keys.of(claim.id).lock)
    match how:
        case "cancel":
            await claim.work.cancel()
        case "clean":
            assert await queue.clean(0, state="active") == [claim.id]
        case _:
            await claim.work.remove()

    assert await active(harness) == 0


async def active(harness: Harness) -> int:
    return await harness.redis.scard(f"{harness.keys.base}groups:active:acme")


async def test_a_schedulers_job_that_waits_in_a_group_is_replaced_like_any_other(
    queue: Queue, harness: Harness
) -> None:
    for name in ("old", "new"):
        await queue.schedulers.upsert(
            "hourly", Schedule(every=3600), name=name, options=JobOptions(group="acme")
        )

    assert [job.name for job in await queue.get_jobs("waiting", "delayed")] == ["new"]
    assert (await queue.groups.get("acme")).waiting <= 1


# Other clients


async def test_keys_of_a_parent_are_found_after_another_client_has_forgotten_them(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("key", group=Group("1", parent="acme"))
    # As Node's `obliterate` leaves it.
    await harness.redis.delete(harness.keys.meta)
    await queue.add("bell", group="bell")

    assert sorted(await names(harness)) == ["bell", "key"]


async def test_a_queue_that_is_resumed_wakes_our_workers_for_its_groups(
    queue: Queue, harness: Harness, redis: Redis
) -> None:
    await queue.pause()
    await queue.add("work", group="acme")
    await redis.delete(harness.keys.groups_marker)

    await queue.resume()

    assert await redis.exists(harness.keys.groups_marker)
