"""Adding one by one, many at the same time: one call for all, and to each their own answer."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import (
    Deduplication,
    FlowNode,
    FlowProducer,
    Job,
    Parent,
    Queue,
    Schedule,
)
from waystation.core.errors import (
    InvalidInput,
    NotFound,
    NotReplicated,
    PayloadTooLarge,
    ScriptFailed,
    StoreUnreachable,
)
from waystation.core.store.connection import StoreOptions, connect
from waystation.core.store.connection.store import Durability


async def calls(redis: Redis) -> int:
    """How many scripts the server has run."""
    stats = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


async def test_jobs_of_one_moment_travel_together(queue: Queue, redis: Redis) -> None:
    await queue.add("first", {})
    before = await calls(redis)

    jobs = await asyncio.gather(*(queue.add("work", {"n": n}) for n in range(50)))

    # The first leaves at once, because it may be the only one.
    assert await calls(redis) - before == 2
    assert [job.data["n"] for job in jobs] == list(range(50))
    for job in jobs:
        stored = await queue.get_job(job.id)
        assert stored is not None
        assert stored.data == job.data


async def test_they_wait_in_the_order_in_which_they_were_added(
    harness: Harness, queue: Queue
) -> None:
    jobs = await asyncio.gather(*(queue.add("work", {"n": n}) for n in range(600)))
    assert await harness.ids("wait") == [job.id for job in reversed(jobs)]
    assert [int(job.id) for job in jobs] == sorted(int(job.id) for job in jobs)


async def test_a_job_that_is_refused_is_refused_to_whoever_added_it(queue: Queue) -> None:
    async def add(n: int) -> Job:
        if n % 3 == 1:
            return await queue.add("work", {"n": n}, parent=Parent("nobody", "bull:q"))
        if n % 3 == 2:
            return await queue.add("work", {"n": n}, job_id="the-same")
        return await queue.add("work", {"n": n})

    answers = await asyncio.gather(*map(add, range(30)), return_exceptions=True)

    for n, answer in enumerate(answers):
        if n % 3 == 1:
            assert isinstance(answer, NotFound)
        else:
            assert isinstance(answer, Job)
            assert answer.data == {"n": n if n % 3 == 0 else 2}
    refusals = [answer for answer in answers if isinstance(answer, NotFound)]
    assert len(set(map(id, refusals))) == 10


async def test_a_job_that_makes_the_script_fail_fails_alone(queue: Queue, redis: Redis) -> None:
    await redis.lpush("bull:mail:de:broken", "no owner")

    async def add(n: int) -> Job:
        rule = Deduplication("broken") if n == 20 else None
        return await queue.add("work", {"n": n}, deduplication=rule)

    answers = await asyncio.gather(*map(add, range(40)), return_exceptions=True)

    failed = {n: answer for n, answer in enumerate(answers) if not isinstance(answer, Job)}
    assert {n: type(answer) for n, answer in failed.items()} == {20: ScriptFailed}
    waiting = await queue.get_jobs("waiting", limit=None)
    assert [job.data["n"] for job in waiting] == [n for n in range(40) if n != 20]
    await redis.delete("bull:mail:de:broken")


async def test_data_that_cannot_be_sent_holds_up_nobody(redis_url: str) -> None:
    async with Queue("mail", redis_url, size_limit=100) as queue:
        large = queue.add("work", "x" * 200)
        answers = await asyncio.gather(
            queue.add("work", 1), large, queue.add("work", 2), return_exceptions=True
        )
        assert isinstance(answers[1], PayloadTooLarge)
        assert [job.data for job in await queue.get_jobs("waiting")] == [1, 2]


async def test_whoever_is_cancelled_takes_nobody_along(queue: Queue) -> None:
    tasks = [asyncio.create_task(queue.add("work", {"n": n})) for n in range(30)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    added = [answer for answer in answers[1::2] if isinstance(answer, Job)]
    assert [job.data["n"] for job in added] == list(range(1, 30, 2))
    # The first was under way already; the others had not left yet.
    numbers = {job.data["n"] for job in await queue.get_jobs("waiting", limit=None)}
    assert numbers - {0} == set(range(1, 30, 2))


async def test_whoever_waits_when_the_queue_is_closed_is_told(redis_url: str) -> None:
    queue = Queue("mail", redis_url)
    await queue.add("first", {})
    tasks = [asyncio.create_task(queue.add("work", {"n": n})) for n in range(30)]
    await asyncio.sleep(0)
    await queue.close()

    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(answer, Job | StoreUnreachable) for answer in answers)
    errors = [answer for answer in answers if isinstance(answer, StoreUnreachable)]
    assert len(set(map(id, errors))) == len(errors)
    with pytest.raises(StoreUnreachable, match="closed"):
        await queue.add("late", {})


async def test_each_hears_of_their_own_job_that_no_replica_has_confirmed_it(
    redis_url: str,
) -> None:
    options = StoreOptions(durability=Durability.REPLICA, replica_timeout=0.01)
    async with await connect(redis_url, options) as store, Queue("mail", store) as queue:
        answers = await asyncio.gather(
            *(queue.add("work", {"n": n}) for n in range(10)), return_exceptions=True
        )
        stored = [answer.stored for answer in answers if isinstance(answer, NotReplicated)]
        assert stored == [[str(n)] for n in range(1, 11)]


@pytest.mark.parametrize("value", [1, None, {}, {"x": 1}, "text", {"sealed": 1}])
async def test_data_that_would_be_taken_for_an_envelope_is_refused(
    queue: Queue, flows: FlowProducer, value: Any
) -> None:
    data = {"$payload": value}
    with pytest.raises(InvalidInput, match="taken for an encrypted payload"):
        await queue.add("x", data)
    with pytest.raises(InvalidInput, match="taken for an encrypted payload"):
        await flows.add(FlowNode(name="x", queue="mail", data=data))
    with pytest.raises(InvalidInput, match="taken for an encrypted payload"):
        await queue.schedulers.upsert("s", Schedule(every=60), data=data)
    job = await queue.add("x", {"$payload": value, "more": 1})
    with pytest.raises(InvalidInput, match="taken for an encrypted payload"):
        await job.update_data(data)
