"""Many workers in one process: what they share, and who is woken for what."""

import asyncio
import random
import threading
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.routing.harness import Harness
from tests.routing.mesh import PATIENT, QUICK, Seen, mesh, nothing
from tests.routing.test_worker import ended, until
from tests.support.size import size
from waystation.core.store.connection import StoreOptions, connect
from waystation.routing import Job, JobOptions, NewJob, Queue, Target, Worker, hub, source


@pytest.fixture
def queue(harness: Harness) -> Queue:
    return Queue(harness.store)


# --- what they share -----------------------------------------------------------------------------


async def test_the_workers_of_a_process_share_one_set_of_connections(
    harness: Harness, redis_url: str, seen: Seen
) -> None:
    async def connections() -> int:
        found: Any = await onlooker.redis.client_list()
        return sum(client["name"] != "onlooker" for client in found)

    async with await connect(redis_url, StoreOptions(client_name="onlooker")) as onlooker:
        before = await connections()
        async with mesh(redis_url, 30, scheduler=QUICK):
            await seen.until_idle(30)
            assert await connections() - before <= 5
            keepers = [each for each in threading.enumerate() if each.name == "lease-keeper"]
            assert len(keepers) == 1

        async def all_closed() -> bool:
            return await connections() == before

        await until(all_closed)


async def test_one_candidate_stands_for_election_for_all_of_them(
    redis_url: str, seen: Seen, no_strays: None
) -> None:
    async with mesh(redis_url, 20, scheduler=QUICK):

        async def led_for_a_while() -> bool:
            return len(seen.of("process_delayed")) >= 5

        await until(led_for_a_while)

    assert len(seen.of("take_lead")) == 1


async def test_the_upkeep_goes_on_when_the_worker_that_began_it_leaves(
    redis_url: str, seen: Seen, no_strays: None
) -> None:
    async with mesh(redis_url, 3, scheduler=QUICK) as workers:
        await workers[0].close()
        count = len(seen.of("process_delayed"))

        async def goes_on() -> bool:
            return len(seen.of("process_delayed")) > count

        await until(goes_on)

    assert len(seen.of("take_lead")) == 1


async def test_resting_costs_one_look_for_all_of_them(
    harness: Harness, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_S", 0.1)
    async with mesh(harness.store, 20, scheduler=None):
        await seen.until_idle(20)
        asked, looked = len(seen.of("settle")), len(seen.of("look"))

        async def looked_again() -> bool:
            return len(seen.of("look")) >= looked + 3

        await until(looked_again)
        assert len(seen.of("settle")) == asked
        assert len(seen.of("look")[-1]["profiles"]) == 20


async def test_workers_beat_together_and_are_all_alive(
    harness: Harness, queue: Queue, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BEAT_S", 0.05)
    async with mesh(harness.store, 12, scheduler=None):

        async def beaten() -> bool:
            return any(len(args["workers"]) == 2 * 12 for args in seen.of("beat"))

        # The first heartbeat of each is its own; from then on there is one call for all.
        await until(beaten)
        assert all(each.alive for each in await queue.workers())
        assert len(await queue.workers()) == 12
    assert await queue.workers() == []


# --- who is woken --------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_polls")
async def test_a_job_wakes_only_the_worker_that_it_names(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 20, scheduler=None, options=PATIENT):
        await seen.until_idle(20)
        for name in ("w7", "w13", "w7"):
            seen.calls.clear()
            id = (await queue.add("t", None, target=Target(server=name))).id
            await until(ended(queue, id))
            await seen.until_idle(20)
            assert seen.askers() == {name}


@pytest.mark.usefixtures("no_polls")
async def test_a_job_wakes_only_workers_that_have_what_it_needs(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with (
        mesh(harness.store, 12, scheduler=None, options=PATIENT),
        Worker({"t": nothing}, harness.store, server="gpu-1", capabilities=["gpu"]),
        Worker({"t": nothing}, harness.store, server="gpu-2", capabilities=["gpu"]),
    ):
        await seen.until_idle(14)
        seen.calls.clear()
        for _ in range(5):
            options = JobOptions(target=Target(capabilities=("gpu",)))
            await until(ended(queue, (await queue.add("t", None, options)).id))
            await seen.until_idle(14)

    assert seen.askers() == {"gpu-1", "gpu-2"}
    # Who fits is asked once, however many such jobs there are.
    assert len(seen.of("fits")) == 1


@pytest.mark.usefixtures("no_polls")
async def test_a_job_for_anybody_wakes_one_worker_and_at_most_one_more(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 20, scheduler=None, options=PATIENT):
        await seen.until_idle(20)
        ran: set[str] = set()
        for _ in range(5):
            seen.calls.clear()
            id = (await queue.add("t")).id
            await until(ended(queue, id))
            await seen.until_idle(20)
            assert len(seen.askers()) <= 2
            ran |= seen.askers()

    assert len(ran) >= 5


@pytest.mark.usefixtures("no_polls")
async def test_many_jobs_wake_as_many_workers_as_there_are(harness: Harness, queue: Queue) -> None:
    together = asyncio.Barrier(12)

    async def meet(job: Job) -> None:
        await together.wait()

    async with mesh(harness.store, 12, meet, scheduler=None, options=PATIENT):
        ids = [job.id for job in await queue.add_many([NewJob("t")] * 24)]
        await until(ended(queue, *ids))


@pytest.mark.full
@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_wake_up_is_lost_among_workers_that_can_do_different_things(
    harness: Harness, queue: Queue, concurrency: int
) -> None:
    dice = random.Random(concurrency)
    skills = ["a", "b", "c", "d"]

    async def work(job: Job) -> None:
        await asyncio.sleep(dice.choice([0, 0, 0.005]))

    async with AsyncExitStack() as stack:
        for number in range(8):
            offered = dice.sample(skills, 2) if number < 6 else skills[number - 6 :: 2]
            worker = Worker(
                {"t": work},
                harness.store,
                server=f"w{number}",
                capabilities=offered,
                concurrency=concurrency,
                options=PATIENT,
                scheduler=None,
            )
            await stack.enter_async_context(worker)
        ids: list[str] = []
        for _ in range(size(100, full=300)):
            wanted = (dice.choice(skills),) if dice.random() < 0.8 else ()
            target = Target(capabilities=wanted)
            if dice.random() < 0.2:
                target = Target(server=f"w{dice.randrange(8)}")
            options = JobOptions(target=target, priority=dice.choice([5, 9]))
            ids.append((await queue.add("t", None, options)).id)
            if dice.random() < 0.3:
                await asyncio.sleep(dice.choice([0, 0.002, 0.015]))
        await until(ended(queue, *ids))


@pytest.mark.usefixtures("no_polls")
async def test_a_worker_that_is_paused_leaves_its_wake_up_to_others(
    harness: Harness, queue: Queue, seen: Seen
) -> None:
    async with mesh(harness.store, 4, scheduler=None, options=PATIENT) as workers:
        await seen.until_idle(4)
        for worker in workers[:3]:
            worker.pause()
        ids = [(await queue.add("t")).id for _ in range(3)]
        await until(ended(queue, *ids))
        assert {args["worker"] for args in seen.of("settle") if args["outcomes"]} == {"w3"}
