"""Batches by group: several jobs of one group for one call of the handler."""

import asyncio
import random
from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import until
from waystation.bullmq.job import Job
from waystation.bullmq.options import Group, JobOptions
from waystation.bullmq.queue import Queue
from waystation.bullmq.sync_job import SyncJob
from waystation.bullmq.worker import Worker
from waystation.core.errors import InvalidOption

FOR_EVER = timedelta(days=1)


class Batches:
    """A handler that notes which jobs come together."""

    def __init__(self) -> None:
        self.paths: list[set[str | None]] = []
        self.data: list[list[Any]] = []

    async def __call__(self, jobs: list[Job]) -> list[Any]:
        self.paths.append({job.group.path if job.group else None for job in jobs})
        self.data.append([job.data for job in jobs])
        return [job.data for job in jobs]


async def all_done(queue: Queue, many: int) -> None:
    async def done() -> bool:
        return sum((await queue.counts("completed", "failed")).values()) == many

    await until(done)


async def add_to_groups(queue: Queue, **many: int) -> None:
    await queue.add_many(
        [
            ("work", f"{group}{number}", JobOptions(group=group))
            for group, count in many.items()
            for number in range(count)
        ]
    )


async def test_a_batch_holds_jobs_of_one_group_and_those_without_are_one(
    queue: Queue, redis_url: str
) -> None:
    await add_to_groups(queue, acme=6, bell=6)
    for user in ("ada", "bob"):
        await queue.add_many([("work", user, JobOptions(group=Group(user, parent="acme")))] * 6)
    await queue.add_many([("work", "plain")] * 6)
    handle = Batches()
    async with Worker(queue.name, handle, redis_url, batch=30, batch_by="group"):
        await all_done(queue, 30)

    assert sorted(handle.paths, key=str) == sorted(
        [{"acme"}, {"bell"}, {"acme/ada"}, {"acme/bob"}, {None}], key=str
    )


async def test_without_it_a_batch_holds_jobs_of_all_groups(queue: Queue, redis_url: str) -> None:
    await add_to_groups(queue, acme=3, bell=3)
    handle = Batches()
    async with Worker(queue.name, handle, redis_url, batch=6):
        await all_done(queue, 6)

    assert handle.paths == [{"acme", "bell"}]


async def test_a_flood_in_one_group_holds_no_other_up(queue: Queue, redis_url: str) -> None:
    await add_to_groups(queue, flood=200, quiet=1)
    handle = Batches()
    async with Worker(queue.name, handle, redis_url, batch=10, batch_by="group"):
        await all_done(queue, 201)

    assert {"quiet"} in handle.paths[:2]


@pytest.mark.parametrize("by", [None, "group"])
async def test_a_batch_waits_for_its_least(queue: Queue, redis_url: str, by: Any) -> None:
    handle = Batches()
    options: dict[str, Any] = {"batch_by": by, "batch_min": 3, "batch_wait": FOR_EVER}
    async with Worker(queue.name, handle, redis_url, batch=10, **options):
        await add_to_groups(queue, acme=2)
        await until(lambda: counts_of(queue, active=2))
        assert not handle.data
        await queue.add("work", "last", group="acme")
        await all_done(queue, 3)

    assert handle.data == [["acme0", "acme1", "last"]]


async def counts_of(queue: Queue, **wanted: int) -> bool:
    counts = await queue.counts()
    return {state: count for state, count in counts.items() if state in wanted} == wanted


async def test_a_batch_that_never_fills_goes_with_what_it_has(queue: Queue, redis_url: str) -> None:
    await add_to_groups(queue, acme=2, bell=1)
    handle = Batches()
    options: dict[str, Any] = {"batch_by": "group", "batch_min": 5, "batch_wait": 0.01}
    async with Worker(queue.name, handle, redis_url, batch=10, **options):
        await all_done(queue, 3)

    assert sorted(handle.data) == [["acme0", "acme1"], ["bell0"]]


async def test_a_worker_that_closes_hands_back_what_waits_as_if_it_had_not_been_claimed(
    queue: Queue,
    redis_url: str,
) -> None:
    handle = Batches()
    options: dict[str, Any] = {"batch_by": "group", "batch_min": 9, "batch_wait": FOR_EVER}
    async with Worker(queue.name, handle, redis_url, batch=10, **options):
        await add_to_groups(queue, acme=3, bell=2)
        await until(lambda: counts_of(queue, active=5))

    assert not handle.data
    assert (await queue.groups.get("acme")).waiting == 3
    async with Worker(queue.name, handle, redis_url, batch=10, batch_by="group"):
        await all_done(queue, 5)
    assert sorted(handle.data) == [["acme0", "acme1", "acme2"], ["bell0", "bell1"]]
    assert {job.attempts_made for job in await queue.get_jobs("completed")} == {1}


async def test_what_befalls_one_that_waits_leaves_the_others(
    queue: Queue, redis_url: str, harness: Harness
) -> None:
    handle = Batches()
    options: dict[str, Any] = {"batch_by": "group", "batch_min": 5, "batch_wait": FOR_EVER}
    async with Worker(queue.name, handle, redis_url, batch=10, renew=0.01, **options) as worker:
        cancelled = await queue.add("work", "cancelled", group="acme", attempts=1)
        lost = await queue.add("work", "lost", group="acme")
        late = await queue.add("work", "late", group="acme", expires=0.001, attempts=1)
        await queue.add("work", "here", group="acme")
        await until(lambda: counts_of(queue, active=4))
        assert worker.cancel_job(cancelled.id)
        await harness.redis.set(harness.keys.of(lost.id).lock, "another")
        await until(lambda: len(worker.held) == 2)
        await add_to_groups(queue, acme=3)
        await until(lambda: handle.data)
        await until(lambda: counts_of(queue, failed=2))

    assert handle.data == [["here", "acme0", "acme1", "acme2"]]
    reasons = {job.id: job.failed_reason for job in await queue.get_jobs("failed")}
    assert reasons.keys() == {cancelled.id, late.id}


def one_result_each(jobs: list[SyncJob]) -> list[Any]:
    return [job.data for job in jobs]


async def test_plain_functions_get_batches_of_a_group_as_well(queue: Queue, redis_url: str) -> None:
    await add_to_groups(queue, acme=4, bell=4)
    async with Worker(queue.name, one_result_each, redis_url, batch=8, batch_by="group"):
        await all_done(queue, 8)

    assert {job.result for job in await queue.get_jobs("completed")} == {
        f"{group}{number}" for group in ("acme", "bell") for number in range(4)
    }


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_comes_when_each_job_ends_once_with_others_of_its_group(
    queue: Queue, redis_url: str, seed: int
) -> None:
    chance = random.Random(seed)
    ended: dict[int, int] = defaultdict(int)
    groups = (None, "a", "b", Group("u", parent="a"), Group("v", parent="a"))

    async def handle(jobs: list[Job]) -> list[Any]:
        assert len({job.group and job.group.path for job in jobs}) == 1
        await asyncio.sleep(chance.choice((0, 0, 0.003)))
        results: list[Any] = []
        for job in jobs:
            fails = chance.random() < 0.2
            ended[job.data] += not fails
            results.append(ValueError("again") if fails else job.data)
        return results

    async def work() -> None:
        while True:
            most = chance.randint(1, 8)
            async with Worker(
                queue.name,
                handle,
                redis_url,
                batch=most,
                batch_by="group",
                batch_min=chance.randint(1, most),
                batch_wait=chance.choice((0, 0.005, 0.02)),
                concurrency=chance.randint(1, 3),
            ):
                # Now and then a worker leaves while its batches fill, and another one comes.
                await asyncio.sleep(chance.uniform(0.02, 0.2))

    many = 150
    async with asyncio.TaskGroup() as tasks:
        working = [tasks.create_task(work()) for _ in range(2)]
        for number in range(many):
            group = chance.choice(groups)
            await queue.add("work", number, group=group, attempts=100, backoff=0.001)
            match chance.random():
                case draw if draw < 0.05:
                    await queue.groups.pause("a")
                case draw if draw < 0.15:
                    await queue.groups.resume("a")
                case draw if draw < 0.2:
                    await queue.groups.set("b", concurrency=chance.randint(1, 5))
                case _:
                    pass
        await queue.groups.resume("a")
        await all_done(queue, many)
        for each in working:
            each.cancel()

    assert dict(ended) == dict.fromkeys(range(many), 1)
    assert await queue.counts("failed") == {"failed": 0}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch": 5, "batch_min": 6}, "batch_min must be at most batch, 5, got 6"),
        ({"batch_min": 2}, "batch_min must be at most batch, 0, got 2"),
        ({"batch": 5, "batch_min": 0}, "batch_min must be at least 1, got 0"),
        ({"batch": 5, "batch_wait": -1}, "batch_wait"),
        ({"batch_by": "group"}, "batch_by needs a batch"),
        ({"batch": 5, "batch_by": "name"}, "batch_by must be one of group or None"),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        Worker("mail", one_result_each, **options)
