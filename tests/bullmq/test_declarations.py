"""What a process declares when it starts, it declares again at each deployment: no job notices."""

import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq import Deduplication, FlowNode, FlowProducer, JobOptions, Queue, Schedule
from waystation.core.durations import instant
from waystation.core.errors import JobDelayed, JobWaitingForChildren
from waystation.core.store.commands import server_ms
from waystation.tasks import Tasks

Declare: TypeAlias = Callable[[], Awaitable[Any]]

AN_HOUR = timedelta(hours=1)
OPTIONS = JobOptions(backoff=3600)
RULES: dict[str, dict[str, Any]] = {
    "deduplication": {},
    "replace": {"replace": True},
    "reschedule": {"reschedule": True},
    "keep last": {"keep_last_if_active": True},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "every": {"every": 60},
    "limit": {"every": 60, "limit": 1},
    "end": {"every": 60},
    "pattern": {"pattern": "0 3 * * *", "tz": "UTC", "immediately": True},
}
RESTS = (
    "asleep",
    "waits",
    "child",
    "tried again after a step",
    "tried again",
    "handed back",
    "active",
    "completed",
    "failed",
)


async def declared(name: str, harness: Harness, queue: Queue, tasks: Tasks) -> Declare:
    """Something that programs say when they start, and that makes a job."""
    if name in SCHEDULES:
        times = dict(SCHEDULES[name])
        if name == "end":
            times["end_date"] = instant(await server_ms(harness.store.hot) + 30_000)
        schedule = Schedule(**times)
        return lambda: queue.schedulers.upsert("tick", schedule, options=OPTIONS)
    if name in RULES:
        rule = Deduplication("one", **RULES[name])
        return lambda: queue.add("work", {}, backoff=3600, deduplication=rule)
    match name:
        case "flow":
            node = FlowNode(name="work", queue="mail", options=JobOptions(job_id="a", backoff=3600))
            return lambda: FlowProducer(harness.store).add(node)
        case "task":

            @tasks.task(queue="mail", backoff=3600)
            async def beat() -> None: ...

            return lambda: tasks.schedule("beat", Schedule(every=60), beat.bind())
        case _:
            return lambda: queue.add("work", {}, job_id="a", backoff=3600)


async def rest(harness: Harness, rests: str) -> str:
    """Bring the job where it rests; returns its id."""
    claim = await harness.claim_one()
    job = claim.work
    if rests not in ("tried again", "handed back"):
        await job.step("charge", int)
    with contextlib.suppress(JobDelayed, JobWaitingForChildren):
        match rests:
            case "asleep":
                await job.sleep(AN_HOUR)
            case "waits":
                await job.wait_for("approve")
            case "child":
                await job.run_child("kid", queue="other")
            case "tried again" | "tried again after a step":
                await harness.fail(claim)
            case "handed back":
                await harness.hand_back(claim)
            case "completed":
                await harness.complete(claim)
            case "failed":
                job.discard()
                await harness.fail(claim)
            case _:
                pass
    return claim.id


@pytest.mark.parametrize("rests", RESTS)
@pytest.mark.parametrize("name", [*SCHEDULES, "task", *RULES, "flow", "id"])
async def test_what_is_declared_again_costs_no_job_that_has_begun_anything(
    harness: Harness, queue: Queue, redis_url: str, name: str, rests: str
) -> None:
    if name in ("replace", "reschedule") and rests == "tried again":
        pytest.skip("a job without steps is changed as BullMQ does it")
    async with Tasks(redis_url) as tasks:
        declare = await declared(name, harness, queue, tasks)
        await declare()
        id = await rest(harness, rests)
        known, state = await harness.hash(id), await queue.state(id)
        due = await harness.call("ZSCORE", harness.keys.delayed, id)

        for _ in range(2):
            await declare()

        assert await harness.hash(id) == known
        assert await queue.state(id) == state
        assert await harness.call("ZSCORE", harness.keys.delayed, id) == due
        if name == "end":
            assert await queue.count() == int(state in ("delayed", "waiting", "waiting-children"))


@pytest.mark.parametrize("change", ["remove", "pause"])
@pytest.mark.parametrize("rests", RESTS)
async def test_a_schedule_that_stops_leaves_what_has_begun(
    harness: Harness, queue: Queue, rests: str, change: str
) -> None:
    await queue.schedulers.upsert("tick", Schedule(every=60, limit=3), options=OPTIONS)
    id = await rest(harness, rests)
    known, state = await harness.hash(id), await queue.state(id)

    assert await getattr(queue.schedulers, change)("tick")

    assert (await harness.hash(id), await queue.state(id)) == (known, state)
    if change == "pause":
        following = await queue.get_job(await queue.schedulers.resume("tick"))
        assert following is not None
        assert following.id != id
        assert following.options.raw["repeat"]["count"] == 2


async def test_a_slot_whose_job_was_run_early_is_passed_over(
    harness: Harness, queue: Queue
) -> None:
    daily = Schedule(pattern="0 3 * * *", tz="UTC")
    first = await queue.schedulers.upsert("tick", daily)
    job = await queue.get_job(first)
    assert job is not None
    await job.promote()
    assert await rest(harness, "asleep") == first

    second = await queue.schedulers.upsert("tick", daily)

    assert int(second.rpartition(":")[2]) - int(first.rpartition(":")[2]) == 24 * 3_600_000
    assert await queue.schedulers.upsert("tick", daily) == second
    assert sorted(await harness.ids("delayed")) == sorted([first, second])
