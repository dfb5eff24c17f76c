"""Many workers in one process: what no wake-up names is found by looking for all of them."""

import pytest

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
from tests.routing.mesh import PATIENT, Seen, mesh, nothing
from tests.routing.test_worker import ended, until
from waystation.routing import JobOptions, Limit, NewJob, Queue, Schedule, Target, Worker


@pytest.fixture
def queue(harness: Harness) -> Queue:
    return Queue(harness.store)


@pytest.mark.usefixtures("no_polls")
async def test_a_delayed_job_wakes_somebody_when_it_is_due(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 3, scheduler=None, options=PATIENT):
        await seen.until_idle(3)
        options = JobOptions(schedule=Schedule(delay=0.1), target=Target(server="w1"))
        await until(ended(queue, (await queue.add("t", None, options)).id))


@pytest.mark.usefixtures("no_polls")
async def test_a_job_that_was_delayed_before_anybody_worked_runs_when_it_is_due(
    harness: Harness, queue: Queue
) -> None:
    id = (await queue.add("t", None, schedule=Schedule(delay=0.3))).id
    async with mesh(harness.store, 2, scheduler=None, options=PATIENT):
        await until(ended(queue, id))


@pytest.mark.usefixtures("no_polls")
async def test_a_place_under_a_limit_wakes_somebody_when_it_is_free(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 3, scheduler=None, options=PATIENT):
        await queue.limits.set("t", Limit(max_concurrent=1))
        ids = [
            job.id
            for job in await queue.add_many(
                [
                    NewJob("t", None, JobOptions(target=Target(server=f"w{n % 3}")))
                    for n in range(12)
                ]
            )
        ]
        await until(ended(queue, *ids))


@pytest.mark.usefixtures("no_polls")
async def test_a_type_that_is_resumed_wakes_somebody(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 3, scheduler=None, options=PATIENT):
        await queue.pause("t")
        id = (await queue.add("t", None, target=Target(server="w2"))).id
        await seen.until_idle(3)
        await queue.resume("t")
        await until(ended(queue, id))


async def test_a_job_that_others_pushed_is_found_for_the_worker_that_can_do_it(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 8, scheduler=None, options=PATIENT):
        await seen.until_idle(8)
        seen.calls.clear()
        await Bridge(harness.redis).dispatch("x", type="t", target={"server": "w5"})
        await until(ended(queue, "x"))
        assert seen.askers() == {"w5"}


async def test_wake_ups_without_a_signature_are_understood(
    harness: Harness, queue: Queue, seen: Seen, no_polls: None
) -> None:
    async with mesh(harness.store, 3, scheduler=None, options=PATIENT):
        await seen.until_idle(3)
        await Bridge(harness.redis).dispatch("x", type="t", target={"server": "w1"})
        # As a producer of an older release leaves it.
        await harness.redis.xadd(harness.keys.wake, {"queue": "t"})
        await until(ended(queue, "x"))


async def test_more_wake_ups_than_the_stream_holds_lose_nobody(
    harness: Harness, queue: Queue, seen: Seen, no_polls: None
) -> None:
    async with mesh(harness.store, 3, scheduler=None, options=PATIENT):
        await seen.until_idle(3)
        crowd = [NewJob("t", None, JobOptions(target=Target(server=f"x{n}"))) for n in range(400)]
        mine = NewJob("t", None, JobOptions(target=Target(server="w2")))
        ids = [job.id for job in await queue.add_many([mine, *crowd])]
        await until(ended(queue, ids[0]))


async def test_the_line_goes_on_after_the_store_was_emptied(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 3, scheduler=None):
        await until(ended(queue, (await queue.add("t")).id))
        await seen.until_idle(3)
        await harness.redis.flushdb()
        await until(ended(queue, (await queue.add("t")).id))


async def test_workers_on_other_connections_and_in_other_namespaces_work_side_by_side(
    harness: Harness, redis_url: str, queue: Queue
) -> None:
    other = Queue(harness.store, prefix="other")
    async with (
        mesh(harness.store, 2, scheduler=None),
        Worker({"t": nothing}, redis_url, server="far", scheduler=None),
        Worker({"t": nothing}, redis_url, server="w0", prefix="other", scheduler=None),
    ):
        named = [JobOptions(target=Target(server=name)) for name in ("w0", "w1", "far")]
        ids = [(await queue.add("t", None, options)).id for options in named]
        elsewhere = (await other.add("t")).id
        await until(ended(queue, *ids))
        await until(ended(other, elsewhere))
    await harness.redis.flushdb()
