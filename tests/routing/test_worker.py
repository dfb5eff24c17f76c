"""A whole worker: registry, handlers by type, upkeep, moving on to another server."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.routing.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.errors import InvalidOption
from waystation.routing import (
    BackoffRule,
    Job,
    JobOptions,
    Queue,
    Retry,
    Schedule,
    SchedulerOptions,
    Worker,
    WorkerOptions,
)

QUICK = SchedulerOptions(tick=0.05, recover=0.1, mend=0.2, term=2)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await condition():
            await asyncio.sleep(0.01)


def ended(queue: Queue, *ids: str, state: str = "completed") -> Callable[[], Any]:
    async def condition() -> bool:
        return all([await queue.state(id) == state for id in ids])

    return condition


@pytest.fixture
def queue(harness: Harness) -> Queue:
    return Queue(harness.store)


async def test_a_worker_runs_the_handler_of_each_type_and_leaves_when_it_ends(
    harness: Harness, queue: Queue
) -> None:
    """B-6 B-58 B-59"""

    async def email(job: Job) -> str:
        await job.update_progress(50, "half")
        return f"to {job.data['to']}"

    def count(job: Job) -> int:
        return len(job.data)

    async with Worker({"email": email, "count": count}, harness.store, server="w1"):
        first = (await queue.add("email", {"to": "a"})).id
        second = (await queue.add("count", [1, 2, 3])).id
        other = (await queue.add("fax", {})).id
        await until(ended(queue, first, second))
        assert [each.server for each in await queue.workers() if each.alive] == ["w1"]
        assert await queue.state(other) == "waiting"

    results = [await queue.result(id) for id in (first, second)]
    assert [result.data for result in results if result] == ["to a", 3]
    progress = await queue.progress(first)
    assert progress is not None
    assert progress.message == "half"
    assert await queue.workers() == []


async def test_delays_and_retries_happen_by_themselves(harness: Harness, queue: Queue) -> None:
    tries = 0

    def flaky(job: Job) -> None:
        nonlocal tries
        tries += 1
        if job.attempts == 0:
            raise OSError("not now")

    async with Worker({"flaky": flaky}, harness.store, scheduler=QUICK):
        retry = Retry(backoff=BackoffRule(type="fixed", delay=0.05))
        id = (await queue.add("flaky", None, retry=retry)).id
        later = (await queue.add("flaky", None, schedule=Schedule(delay=0.1), retry=retry)).id
        await until(ended(queue, id, later))

    assert tries == 4


async def test_a_failure_that_asks_for_another_worker_gets_one(
    harness: Harness, queue: Queue
) -> None:
    seen: list[str] = []

    def on(name: str) -> Callable[[Job], str]:
        def work(job: Job) -> str:
            seen.append(name)
            if len(seen) == 1:
                raise MemoryError("too big for me")
            return name

        return work

    retry = Retry(attempts=5, backoff=BackoffRule(delay=0), reroute_on=("MemoryError",))
    async with (
        Worker({"big": on("w1")}, harness.store, server="w1", scheduler=None),
        Worker({"big": on("w2")}, harness.store, server="w2", scheduler=None),
    ):
        id = (await queue.add("big", None, retry=retry)).id
        await until(ended(queue, id))

    assert sorted(seen) == ["w1", "w2"]


async def test_the_upkeep_of_a_worker_that_died_goes_on_elsewhere(
    harness: Harness, queue: Queue
) -> None:
    """B-31 B-60 F-B15"""
    begun = asyncio.Event()

    async def hang(job: Job) -> str:
        if job.attempts == 0 and not begun.is_set():
            begun.set()
            await asyncio.sleep(3600)
        return "done"

    options = WorkerOptions(lease=0.6, poll=0.1)
    dying = Worker({"t": hang}, harness.store, server="dying", options=options, scheduler=QUICK)
    await dying.start()
    id = (await queue.add("t")).id
    await begun.wait()
    await dying.close(force=True)

    async with Worker({"t": hang}, harness.store, options=options, scheduler=QUICK):
        await until(ended(queue, id))


async def test_schedules_fire_while_a_worker_runs(harness: Harness, queue: Queue) -> None:
    fired: list[str] = []
    async with Worker({"tick": lambda job: fired.append(job.id)}, harness.store, scheduler=QUICK):
        options = JobOptions(schedule=Schedule(cron="* * * * * *"))
        id = (await queue.add("tick", None, options)).id
        async with asyncio.timeout(LIMIT_S):
            while len(fired) < 2:
                await asyncio.sleep(0.02)

    assert len(set(fired)) == len(fired)
    assert all(instance.startswith(f"{id}:") for instance in fired)


async def test_stats_tell_what_the_monitoring_page_asks_for(harness: Harness) -> None:
    """B-67"""
    from waystation.routing import Limit

    await harness.queue.limits.set("email", Limit(max_concurrent=5))
    await harness.add(schedule=Schedule(delay=1))
    await harness.add(schedule=Schedule(cron="* * * * *"))
    await harness.add(retry=Retry(attempts=1))
    await harness.fail(harness.source())
    first = await harness.add()
    await harness.claim(harness.source())
    await harness.add(depends_on=(first,))
    await harness.add()

    assert await harness.queue.counts() == {
        "waiting": 1,
        "active": 1,
        "delayed": 1,
        "held": 1,
        "cron": 1,
        "dead": 1,
    }
    assert await harness.queue.counts("dead", "held") == {"dead": 1, "held": 1}
    assert await harness.queue.limits.running() == {"email": 1}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"handlers": {}}, "a handler for at least one type"),
        ({"server": "active"}, "a server must"),
        ({"capabilities": "gpu"}, "capabilities must be a list"),
        ({"handlers": {"": print}}, "type must be text"),
        ({"concurrency": 0}, "concurrency must be at least 1, got 0"),
        ({"options": {"concurrency": 3}}, "options"),
    ],
)
def test_a_worker_that_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    arguments: Any = {"handlers": {"t": print}, **options}
    with pytest.raises(InvalidOption, match=sentence):
        Worker(**arguments)
