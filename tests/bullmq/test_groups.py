"""What groups do for those who use them; their fairness is a law (`test_laws_of_groups.py`)."""

import asyncio
import math
from datetime import timedelta
from functools import partial

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq.flows import FlowNode, FlowProducer
from waystation.bullmq.job import Job
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Group, JobOptions
from waystation.bullmq.queue import Queue
from waystation.bullmq.redis.packing import NewJob
from waystation.bullmq.worker import Worker
from waystation.core import codec
from waystation.core.errors import GroupFull, InvalidOption, NotAdded
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled

HOUR_MS = 3_600_000


async def names(harness: Harness, many: int = 50) -> list[str]:
    return [claim.work.name for claim in await harness.claim(many)]


# Turns


async def test_groups_take_turns_whatever_each_of_them_adds(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("a", n, JobOptions(group="acme")) for n in range(5)])
    await queue.add("b", group="bell")
    await queue.add("c", group="cord")
    await queue.add("plain")

    assert sorted(await names(harness, 4)) == ["a", "b", "c", "plain"]
    assert await names(harness) == ["a"] * 4


async def test_splitting_into_keys_of_one_parent_gains_nothing(
    queue: Queue, harness: Harness
) -> None:
    for n in range(40):
        await queue.add("split", group=Group(f"key-{n % 20}", parent="acme"))
        await queue.add("whole", group="bell")

    for _ in range(10):
        assert sorted(await names(harness, 4)) == ["split", "split", "whole", "whole"]


async def test_keys_of_a_parent_and_its_own_jobs_take_turns_in_it(
    queue: Queue, harness: Harness
) -> None:
    for _ in range(3):
        await queue.add("own", group="acme")
        await queue.add("one", group=Group("1", parent="acme"))
        await queue.add("two", group=Group("2", parent="acme"))

    for _ in range(3):
        assert sorted(await names(harness, 3)) == ["one", "own", "two"]


async def test_a_group_has_its_own_priorities_and_lifo(queue: Queue, harness: Harness) -> None:
    await queue.add("third", group=Group("acme", priority=2))
    await queue.add("second", group="acme", priority=1)
    await queue.add("first", group="acme")
    await queue.add("newest", group="acme", lifo=True)

    assert await names(harness) == ["newest", "first", "second", "third"]


async def test_a_job_with_another_priority_moves_in_its_group(
    queue: Queue, harness: Harness
) -> None:
    later, sooner = await queue.add("later", group="acme"), await queue.add("sooner", group="acme")
    await later.change_priority(5)

    assert (await sooner.state(), await names(harness)) == ("waiting", ["sooner", "later"])


# Limits


async def test_a_group_at_its_concurrency_starts_one_more_when_one_ends(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", concurrency=2)
    await queue.add_many([("a", n, JobOptions(group="acme")) for n in range(4)])
    await queue.add("b", group="bell")

    claims = await harness.claim(10)
    assert sorted(claim.work.name for claim in claims) == ["a", "a", "b"]
    assert await harness.claim(10) == []
    [a, *_] = [claim for claim in claims if claim.work.name == "a"]
    reply = await harness.worker.settle([Settled(a, Failed(ValueError("again")))], claim=10)
    assert [claim.work.name for claim in reply.claims] == ["a"]


async def test_one_whose_worker_died_no_longer_counts(queue: Queue, harness: Harness) -> None:
    await queue.groups.set_for_all(concurrency=1)
    await queue.add("a", group="acme")
    await queue.add("b", group="acme")
    assert await names(harness) == ["a"]

    assert len(await harness.lapse()) == 1

    # As with any job that stalled, it is the next one.
    assert await names(harness) == ["a"]
    assert await names(harness) == []


async def test_one_that_somebody_else_settled_no_longer_counts_for_long(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", concurrency=1)
    await queue.add("a", group="acme")
    await queue.add("b", group="acme")
    claim = await harness.claim_one()
    await harness.redis.lrem(harness.keys.active, 1, claim.id)
    await harness.redis.delete(harness.keys.of(claim.id).lock)
    assert await names(harness) == []

    await harness.clock.advance(5)

    assert await names(harness) == ["b"]


async def test_a_rate_counts_costs_and_is_never_exceeded(queue: Queue, harness: Harness) -> None:
    await queue.groups.set("acme", rate=Limit(100, timedelta(hours=1)))
    for cost in (60, 30, 30):
        await queue.add(str(cost), group=Group("acme", cost=cost))
    await queue.add("other", group="bell")

    assert sorted(await names(harness)) == ["30", "60", "other"]
    [state] = await queue.groups.list()
    assert (state.path, state.waiting, state.active, state.spent) == ("acme", 1, 2, 90)
    assert state.held_for_s is not None
    # A higher limit holds at once.
    await queue.groups.set("acme", rate=Limit(120, timedelta(hours=1)))
    assert await names(harness) == ["30"]


async def test_a_job_that_costs_more_than_a_whole_window_starts_in_an_empty_one(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", rate=Limit(100, timedelta(hours=1)))
    await queue.add("huge", group=Group("acme", cost=250))
    await queue.add("small", group="acme")

    assert await names(harness) == ["huge"]
    # Two more windows are as good as spent.
    assert await harness.redis.pttl(f"{harness.keys.base}groups:spent:acme") > 2 * HOUR_MS


async def test_what_a_job_costs_in_truth_is_counted(queue: Queue, harness: Harness) -> None:
    await queue.groups.set("acme", rate=Limit(1000, timedelta(hours=1)))
    await queue.add("a", group=Group("acme", cost=100))
    await queue.add_many([("b", n, JobOptions(group="bell")) for n in range(20)])
    await queue.add("a", group="acme")
    first = await harness.claim_one()

    await first.work.charge(110)

    assert first.work.cost == 110
    assert (await queue.groups.get("acme")).spent == 110
    # One of 110 stands against twenty of 1 each.
    assert await names(harness) == ["b"] * 20 + ["a"]


async def test_events_say_what_a_turn_cost_and_the_weight_of_its_tenant(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", weight=2)
    await queue.add("a", group=Group("ada", parent="acme", cost=3, weight=5))
    await queue.add("plain")
    first, second = await harness.claim(2)
    claimed = first if first.work.name == "a" else second
    await claimed.work.charge(4.5)

    said = {each["jobId"]: each for each in await harness.events("active")}
    turn = {"group": "acme/ada", "cost": "3", "weight": "2", "free": "0"}
    assert said[claimed.work.id].items() >= turn.items()
    assert said.keys() == {first.work.id, second.work.id}
    [other] = said.keys() - {claimed.work.id}
    assert (said[other]["cost"], said[other]["weight"]) == ("1", "1")
    [charged] = await harness.events("charged")
    assert charged.items() >= {"cost": "4.5", "more": "1.5", "weight": "2"}.items()


async def test_events_of_a_queue_without_groups_say_nothing_of_turns(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("plain")
    await names(harness)
    [active] = await harness.events("active")
    assert active.keys() == {"event", "jobId", "prev", "workerId"}


async def test_events_say_since_when_a_job_waited_for_nothing_but_its_turn(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("bell", concurrency=2)
    await queue.groups.pause("acme")
    for group in ("acme", "bell", "cord"):
        await queue.add(group, group=group)
    await names(harness)
    await queue.groups.resume("acme")
    resumed_ms = int(await harness.redis.hget(f"{harness.keys.base}groups:freed", "acme") or 0)
    await names(harness)
    await queue.groups.reset("bell")
    await queue.add("bell", group="bell")
    await names(harness)

    free = [(each["group"], each.get("free")) for each in await harness.events("active")]
    # What a limit may have held up is not known.
    assert {*free[:2]} == {("bell", None), ("cord", "0")}
    assert free[2] == ("acme", str(resumed_ms))
    assert int(free[3][1] or 0) >= resumed_ms > 0
    assert 0 < await harness.redis.pttl(f"{harness.keys.base}groups:freed") <= HOUR_MS


async def test_a_budget_lasts_for_a_day_and_is_told_before_it_ends(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", budget=100)
    for cost in (50, 35, 20, 15):
        await queue.add(str(cost), group=Group("acme", cost=cost))

    assert await names(harness) == ["50", "35"]
    state = await queue.groups.get("acme")
    assert (state.spent_today, state.settings.budget) == (85, 100)
    assert state.held_for_s is not None
    assert state.held_for_s <= 86_400
    [told] = await harness.events("group-budget")
    assert (told["group"], told["spent"], told["budget"]) == ("acme", "85", "100")
    # More for today lets the next ones start at once.
    await queue.groups.set("acme", budget=120)
    assert await names(harness) == ["20", "15"]
    assert (await queue.groups.get("acme")).held_by == "budget"


async def test_a_paused_group_starts_nothing_until_it_is_resumed(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("before", group="acme")
    await queue.groups.pause("acme")
    await queue.add("during", group="acme")
    await queue.add("other", group="bell")

    assert await names(harness) == ["other"]
    assert (await queue.groups.get("acme")).held_for_s == math.inf
    assert await names(harness) == []
    await queue.groups.resume("acme")
    assert await names(harness) == ["before", "during"]


async def test_a_parent_starts_its_own_job_while_all_groups_in_it_are_paused(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.pause(Group("1", parent="acme"))
    await queue.add("held", group=Group("1", parent="acme"))
    assert await names(harness) == []

    await queue.add("own", group="acme")

    assert await names(harness) == ["own"]


async def test_limits_that_are_set_anew_count_from_the_start(
    queue: Queue, harness: Harness
) -> None:
    await queue.groups.set("acme", concurrency=1)
    job = await queue.add("a", group="acme")
    await harness.claim_one()
    await harness.redis.lrem(harness.keys.active, 1, job.id)

    await queue.groups.reset("acme")

    assert not await harness.redis.exists(f"{harness.keys.base}groups:active:acme")


async def test_a_full_group_refuses_another_job_and_says_so(queue: Queue) -> None:
    await queue.groups.set_for_all(max_size=2)
    await queue.add("a", group="acme")
    await queue.add("a", group="acme")

    with pytest.raises(GroupFull, match="'late' was refused: as many jobs wait in its group"):
        await queue.add("late", group="acme")
    with pytest.raises(NotAdded) as caught:
        await queue.add_many(
            [NewJob("b", None, JobOptions(group=Group("bell", max_size=1))) for _ in range(3)]
        )
    assert [job and job.name for job in caught.value.added] == ["b", None, None]
    assert (await queue.counts("waiting"))["waiting"] == 3


@pytest.mark.parametrize("way", ["one", "many", "flow"])
@pytest.mark.parametrize("is_for_all", [False, True], ids=["set", "set for all"])
async def test_a_parent_holds_no_more_than_its_limit_however_many_groups_share_it(
    flows: FlowProducer, queue: Queue, way: str, is_for_all: bool
) -> None:
    await (queue.groups.set_for_all if is_for_all else partial(queue.groups.set, "acme"))(
        max_size=3
    )
    users = [JobOptions(group=Group(f"user{n % 2}", parent="acme")) for n in range(4)]

    async def fill() -> None:
        if way == "one":
            for each in users:
                await queue.add("ask", group=each.group)
        elif way == "many":
            await queue.add_many([("ask", None, each) for each in users])
        else:
            asked = [FlowNode(name="ask", queue=queue.name, options=each) for each in users]
            await flows.add(FlowNode(name="all", queue=queue.name, children=asked))

    with pytest.raises((GroupFull, NotAdded)):
        await fill()

    assert (await queue.groups.get("acme")).waiting == (0 if way == "flow" else 3)
    await queue.add("ask", group="bell")


async def test_a_flow_that_would_overfill_a_group_adds_nothing(
    flows: FlowProducer, queue: Queue
) -> None:
    await queue.groups.set("acme", max_size=2)
    children = [
        FlowNode(name="child", queue=queue.name, options=JobOptions(group="acme")) for _ in range(3)
    ]

    with pytest.raises(GroupFull):
        await flows.add(FlowNode(name="parent", queue=queue.name, children=children))

    assert await queue.count() == 0


# Keeping the group


async def test_a_job_keeps_its_group_through_retry_delay_and_dead_letter(
    queue: Queue, harness: Harness
) -> None:
    id = await harness.add(group="acme", attempts=2, backoff=None, delay=60)
    job = await queue.get_job(id)
    assert job is not None
    assert (await job.state(), job.group) == ("delayed", Group("acme"))
    await harness.clock.advance(61)
    for _ in range(2):
        claim = await harness.claim_one()
        assert claim.work.group == Group("acme")
        assert (await queue.groups.get("acme")).active == 1
        await harness.fail(claim)
    assert await job.state() == "failed"

    for again in (job.retry, lambda: queue.retry_all("failed")):
        await again()
        assert ((await queue.groups.get("acme")).waiting, await job.state()) == (1, "waiting")
        await harness.fail(await harness.claim_one())


async def test_what_node_makes_wait_goes_to_its_group(queue: Queue, harness: Harness) -> None:
    await queue.groups.set("acme", concurrency=1)
    job = await queue.add("a", group="acme")
    await queue.add("b", group="acme")
    await harness.claim_one()
    # As Node's stalled check or retry leaves it.
    await harness.redis.lrem(harness.keys.active, 1, job.id)
    await harness.redis.lpush(harness.keys.wait, job.id)

    assert await names(harness) == []
    assert (await queue.groups.get("acme")).waiting == 2


async def test_what_node_makes_wait_in_an_empty_queue_starts_at_no_limit(
    queue: Queue, harness: Harness
) -> None:
    job = await queue.add("a", group=Group("1", parent="acme"))
    await harness.claim_one()
    assert await names(harness) == []
    await queue.groups.pause("acme")
    await harness.redis.lrem(harness.keys.active, 1, job.id)
    await harness.redis.delete(harness.keys.of(job.id).lock)
    await harness.redis.lpush(harness.keys.wait, job.id)

    assert await names(harness) == []
    await queue.groups.resume("acme")
    assert await names(harness) == ["a"]


async def test_what_waits_twice_counts_once(queue: Queue, harness: Harness) -> None:
    first = await queue.add("a", group="acme")
    await harness.redis.lpush(harness.keys.wait, first.id, first.id)

    assert await names(harness) == ["a"]
    assert await queue.groups.count() == 0
    await queue.add("b", group="acme")
    assert await names(harness) == ["b"]


async def test_removed_drained_and_cleaned_jobs_leave_their_group(queue: Queue) -> None:
    jobs = await queue.add_many([("a", n, JobOptions(group="acme")) for n in range(6)])
    await jobs[0].remove()
    await jobs[1].cancel()
    assert (await queue.groups.get("acme")).waiting == 4
    assert await queue.clean(0, limit=1, state="waiting") == [jobs[2].id]
    assert await queue.drain() == 3
    assert (await queue.groups.list(), await queue.groups.count()) == ([], 0)


async def test_an_obliterated_queue_leaves_nothing(queue: Queue, harness: Harness) -> None:
    await queue.groups.set("acme", concurrency=1, rate=Limit(10, timedelta(hours=1)))
    for n in range(3):
        await queue.add("a", group="acme")
        await queue.add("b", group=Group(str(n), parent="bell"))
    await harness.claim(3)

    await queue.obliterate(force=True)

    left = await harness.redis.keys(f"{harness.keys.base}*")
    assert [key for key in left if "spent" not in codec.as_text(key)] == []


# Looking


async def test_groups_are_listed_with_the_most_waiting_first(
    queue: Queue, harness: Harness
) -> None:
    await queue.add_many([("a", n, JobOptions(group="acme")) for n in range(3)])
    await queue.add("b", group=Group("käy/1", parent="bell"))

    listed = await queue.groups.list()

    assert [(each.path, each.waiting) for each in listed] == [
        ("acme", 3),
        ("bell/k%C3%A4y%2F1", 1),
        ("bell", 1),
    ]
    assert listed[1].group == Group("käy/1", parent="bell")
    assert [job.name for job in await queue.get_jobs("waiting")] == ["a", "a", "a", "b"]
    assert await queue.counts("waiting") == {"waiting": 4}
    assert await queue.groups.count_jobs() == 4


# Input


@pytest.mark.parametrize(
    "given",
    [
        {"id": ""},
        {"id": "x" * 201},
        {"id": "\ud800"},
        {"id": 7},
        {"id": "a", "parent": ""},
        {"id": "a", "cost": 0},
        {"id": "a", "cost": math.nan},
        {"id": "a", "cost": True},
        {"id": "a", "weight": -1},
        {"id": "a", "max_size": 0},
        {"id": "a", "priority": -1},
        {"id": "a", "priority": 2**21},
    ],
)
def test_a_group_that_could_not_be_stored_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        Group(**given)  # pyright: ignore[reportArgumentType]


async def test_an_idle_worker_starts_what_a_rate_has_held_back(
    queue: Queue, harness: Harness
) -> None:
    done: list[int] = []

    async def handle(job: Job) -> None:
        done.append(job.data)

    await queue.groups.set("acme", rate=Limit(1, 0.3))
    async with Worker(queue.name, handle, harness.store, concurrency=5):
        jobs = await queue.add_many([("a", n, JobOptions(group="acme")) for n in range(3)])
        await asyncio.gather(*(queue.wait(job.id, timeout=20) for job in jobs))
    assert done == [0, 1, 2]
