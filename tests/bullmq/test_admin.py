import asyncio
import contextlib
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq.job import Job
from waystation.bullmq.options import Deduplication, JobOptions, Parent
from waystation.bullmq.queue import Queue
from waystation.bullmq.redis import ends, scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.source import BullSource, ClaimOptions
from waystation.core.durations import instant
from waystation.core.errors import InvalidOption, JobDelayed, WrongState
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)
FAR = 1_900_000_000_000
ONE_TRY = JobOptions(attempts=1)


AT_ONCE = 500


async def schedule(harness: Harness, *, slot: int = FAR, put: str = "wait") -> str:
    """A scheduler and the job that keeps it going."""
    keys, id = harness.keys, f"repeat:s:{slot}"
    await harness.call("ZADD", keys.repeat, slot, "s")
    await harness.call("HSET", f"{keys.base}repeat:s", "name", "tick", "ic", 1, "data", "{}")
    await harness.call("HSET", keys.of(id).job, "name", "tick", "timestamp", 1, "rjk", "s")
    if put == "wait":
        await harness.call("LPUSH", keys.wait, id)
    else:
        await harness.call("ZADD", keys.delayed, slot * 4096, id)
    return id


async def all_keys(harness: Harness) -> set[str]:
    return {key.decode() for key in await harness.call("KEYS", "*")}


async def test_draining_removes_what_waits(queue: Queue, harness: Harness) -> None:
    await queue.add("held")
    await harness.claim_one()
    await queue.add_many([("work", n) for n in range(2 * AT_ONCE + 1)])
    await queue.add("urgent", priority=1)
    later = await queue.add("later", delay=AN_HOUR)

    assert await queue.drain() == 2 * AT_ONCE + 2

    counts = await queue.counts()
    assert counts["waiting"] == counts["prioritized"] == 0
    assert (counts["active"], counts["delayed"]) == (1, 1)
    assert await queue.drain(delayed=True) == 1
    assert await queue.state(later.id) == "unknown"
    assert len(await harness.call("KEYS", "bull:mail:[0-9]*")) == 2  # the held job and its lock


@pytest.mark.parametrize("put", ["wait", "delayed"])
async def test_draining_leaves_schedulers_going(queue: Queue, harness: Harness, put: str) -> None:
    await queue.add("first")
    iteration = await schedule(harness, put=put)
    await queue.add_many([("work", n) for n in range(3)])

    assert await queue.drain(delayed=True) == 4

    assert await harness.ids(put) == [iteration]
    assert await harness.hash(iteration)
    assert await queue.counts() == {**await queue.counts(), "waiting": int(put == "wait")}


async def test_an_old_iteration_keeps_no_scheduler_going(queue: Queue, harness: Harness) -> None:
    iteration = await schedule(harness)
    await harness.call("ZADD", harness.keys.repeat, FAR + HOUR, "s")

    assert await queue.drain() == 1
    assert await harness.hash(iteration) == {}


async def test_draining_frees_those_like_what_was_removed(queue: Queue) -> None:
    first = await queue.add("work", deduplication=Deduplication("x"))

    await queue.drain()

    assert (await queue.add("work", deduplication=Deduplication("x"))).id != first.id


async def waiting_parent(harness: Harness, queue: Queue) -> str:
    """A job that waits for children that are still to come."""
    keys = QueueKeys(queue.name)
    await harness.call("HSET", keys.of("parent").job, "name", "parent", "timestamp", 1)
    await harness.call("ZADD", keys.waiting_children, 1, "parent")
    return "parent"


async def test_a_parent_goes_with_its_last_child_in_the_same_queue(
    queue: Queue, harness: Harness
) -> None:
    parent = Parent(await waiting_parent(harness, queue), "bull:mail")
    await queue.add_many([("child", 1), ("child", 2)])
    await queue.add("child", parent=parent)

    await queue.drain()

    assert await queue.state("parent") == "unknown"
    assert await harness.hash("parent") == {}


async def test_a_parent_elsewhere_may_run_without_its_children(
    queue: Queue, harness: Harness
) -> None:
    async with Queue("parents", harness.store) as parents:
        parent = Parent(await waiting_parent(harness, parents), "bull:parents")
        await queue.add("child", parent=parent)
        await queue.add("other", parent=parent, delay=AN_HOUR)

        await queue.drain()
        assert await parents.state("parent") == "waiting-children"
        await queue.drain(delayed=True)
        assert await parents.state("parent") == "waiting"


async def finish(queue: Queue, harness: Harness, many: int, *, failing: bool = False) -> None:
    await queue.add_many([("work", n, ONE_TRY) for n in range(many)])
    for claim in await harness.claim(many):
        await (harness.fail(claim) if failing else harness.complete(claim))


async def test_cleaning_removes_what_ended_long_ago(queue: Queue, harness: Harness) -> None:
    await finish(queue, harness, 3)
    # Turned by hand, the clock of the worker stands in the past; the server's does not.
    ages = time.time_ns() // 1_000_000 - harness.clock.now_ms() + HOUR

    assert await queue.clean(ages / 1000, 0, "completed") == []
    assert await queue.clean(0, 2, "completed") == ["1", "2"]
    assert await queue.clean(0, 0, "completed") == ["3"]
    assert [event["count"] for event in await harness.events("cleaned")] == ["0", "2", "1"]
    assert await harness.call("KEYS", "bull:mail:[0-9]*") == []


async def test_a_paused_queue_is_not_drained(queue: Queue, harness: Harness) -> None:
    """Neither while jobs wait nor when the last one has ended; Node emits nothing, either."""
    await queue.add_many([("work", n) for n in range(3)])
    first = await harness.claim_one()
    await queue.pause()
    await harness.complete(first)
    await queue.resume()
    second, third = await harness.claim_one(), await harness.claim_one()
    await queue.pause()
    await harness.complete(second)
    await harness.complete(third)
    assert await harness.events("drained") == []

    await queue.resume()
    await queue.add("work")
    await harness.complete(await harness.claim_one())
    assert len(await harness.events("drained")) == 1


async def test_a_job_that_ends_while_it_is_retried_is_retried_once(
    queue: Queue, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.add("work", attempts=1)
    await harness.fail(await harness.claim_one())
    retry_finished = ends.retry_finished

    async def with_a_fast_worker(*args: Any, **kwargs: Any) -> int:
        code = await retry_finished(*args, **kwargs)
        await harness.complete(await harness.claim_one())
        return code

    monkeypatch.setattr(ends, "retry_finished", with_a_fast_worker)
    assert await queue.retry("1") == 1
    assert await harness.ids("completed") == ["1"]


async def test_cleaning_goes_on_until_its_limit(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("work", n) for n in range(2 * AT_ONCE + 5)])

    assert len(await queue.clean(0, AT_ONCE + 7, "waiting")) == AT_ONCE + 7
    assert (await queue.counts("waiting"))["waiting"] == AT_ONCE - 2
    assert [job.data for job in await queue.get_jobs("waiting", limit=1)] == [AT_ONCE + 7]


async def test_cleaning_begins_with_what_bullmq_5_set_aside(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("old", n) for n in range(3)])
    await harness.redis.rename(harness.keys.wait, harness.keys.paused)
    await queue.add_many([("new", n) for n in range(3)])

    assert await queue.clean(0, 4, "wait") == ["3", "2", "1", "4"]
    assert await harness.ids("wait") == ["6", "5"]


async def test_cleaning_looks_past_what_is_young(queue: Queue, harness: Harness) -> None:
    for n in range(AT_ONCE + 9):
        young = n < AT_ONCE + 5
        await queue.add("work", n, created_at=instant(time.time() * 1000 if young else 1))

    removed = await queue.clean(AN_HOUR, 0, "wait")

    assert sorted(removed) == sorted(str(AT_ONCE + n) for n in (6, 7, 8, 9))
    assert (await queue.counts("waiting"))["waiting"] == AT_ONCE + 5


async def test_cleaning_spares_what_a_worker_holds(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("work", n) for n in range(2)])
    held, lost = await harness.claim(2)
    await harness.redis.delete(harness.keys.of(lost.id).lock)

    assert await queue.clean(0, 0, "active") == [lost.id]
    assert await harness.complete(held) is None


async def test_cleaning_spares_what_keeps_a_scheduler_going(queue: Queue, harness: Harness) -> None:
    iteration = await schedule(harness, put="delayed")
    other = await queue.add("later", delay=AN_HOUR)

    assert await queue.clean(0, 0, "delayed") == [other.id]
    assert await harness.ids("delayed") == [iteration]


async def test_cleaning_refuses_what_it_cannot_do(queue: Queue) -> None:
    with pytest.raises(InvalidOption, match="grace must be a timedelta or seconds, at least 0"):
        await queue.clean(-0.001)
    with pytest.raises(InvalidOption, match="a state is one of"):
        await queue.clean(0, 0, "asleep")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidOption, match="wait for their children"):
        await queue.clean(0, 0, "waiting-children")  # pyright: ignore[reportArgumentType]


async def test_an_obliterated_queue_leaves_nothing(queue: Queue, harness: Harness) -> None:
    await finish(queue, harness, 3)
    await finish(queue, harness, 2, failing=True)
    await queue.add_many([("work", n) for n in range(2 * AT_ONCE)])
    await queue.add("once", deduplication=Deduplication("x"), delay=AN_HOUR)
    await queue.add("urgent", priority=1)
    await waiting_parent(harness, queue)
    await schedule(harness)
    await queue.limits.rate_limit(AN_HOUR)

    await queue.obliterate()

    assert await all_keys(harness) == set()


async def test_a_queue_with_active_jobs_is_only_obliterated_by_force(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("work")
    await harness.claim_one()
    before = await harness.everything()

    with pytest.raises(WrongState, match="has active jobs"):
        await queue.obliterate()
    assert await harness.everything() == before
    await queue.obliterate(force=True)

    assert await all_keys(harness) == set()


async def test_failed_jobs_are_retried_in_one_go(queue: Queue, harness: Harness) -> None:
    await finish(queue, harness, AT_ONCE + 3, failing=True)

    assert await queue.retry_all(until=instant(harness.clock.now_ms() - 1)) == 0
    assert await queue.retry_all() == AT_ONCE + 3

    counts = await queue.counts("waiting", "failed")
    assert counts == {"waiting": AT_ONCE + 3, "failed": 0}


async def test_completed_jobs_can_be_run_again(queue: Queue, harness: Harness) -> None:
    await finish(queue, harness, 3)

    assert await queue.retry_all("completed") == 3

    stored = await harness.hash("1")
    assert {"finishedOn", "processedOn", "returnvalue"}.isdisjoint(stored)
    assert [event["prev"] for event in (await harness.events("waiting"))[-3:]] == ["completed"] * 3
    with pytest.raises(InvalidOption, match="got 'active'"):
        await queue.retry_all(state="active")  # pyright: ignore[reportArgumentType]


async def test_a_retried_child_is_waited_for_again(queue: Queue, harness: Harness) -> None:
    parent = Parent(await waiting_parent(harness, queue), "bull:mail")
    child = await queue.add("child", parent=parent, fail_parent_on_failure=True, attempts=1)
    await harness.fail(await harness.claim_one())
    unsuccessful = harness.keys.of("parent").unsuccessful
    assert await harness.redis.zcard(unsuccessful) == 1

    await queue.retry_all()

    assert await queue.state(child.id) == "waiting"
    assert await harness.redis.zcard(unsuccessful) == 0
    assert await harness.call("SMEMBERS", harness.keys.of("parent").dependencies) == [
        b"bull:mail:1"
    ]


async def test_delayed_jobs_are_promoted_in_one_go(queue: Queue, harness: Harness) -> None:
    for n in range(4):
        await queue.add("later", n, delay=(HOUR + n * 1000) / 1000)

    assert await queue.promote_all() == 4

    assert await harness.ids("wait") == ["4", "3", "2", "1"]
    assert await harness.redis.zscore(harness.keys.marker, "0") == 0


async def test_removing_a_job_removes_its_children(queue: Queue, harness: Harness) -> None:
    parent = Parent(await waiting_parent(harness, queue), "bull:mail")
    async with Queue("children", harness.store) as children:
        near = await queue.add("child", parent=parent)
        far = await children.add("child", parent=parent, job_id="a:b:c")

        assert await queue.remove("parent")

        assert await queue.state(near.id) == await children.state(far.id) == "unknown"
        assert await children.get_job(far.id) is None


async def test_a_job_is_not_removed_while_a_child_is_held(queue: Queue, harness: Harness) -> None:
    parent = Parent(await waiting_parent(harness, queue), "bull:mail")
    await queue.add("child", parent=parent)
    await harness.claim_one()

    assert not await queue.remove("parent")
    assert await queue.state("parent") == "waiting-children"
    assert await queue.remove("parent", remove_children=False)


async def test_removing_the_last_child_lets_the_parent_run(queue: Queue, harness: Harness) -> None:
    parent = Parent(await waiting_parent(harness, queue), "bull:mail")
    child = await queue.add("child", parent=parent)

    await queue.remove(child.id)

    assert await harness.ids("wait") == ["parent"]


async def test_the_next_of_a_scheduler_is_not_removed(queue: Queue, harness: Harness) -> None:
    iteration = await schedule(harness)

    with pytest.raises(WrongState, match="remove the scheduler instead"):
        await queue.remove(iteration)


async def test_jobs_that_no_state_knows_are_removed(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("work", n) for n in range(AT_ONCE + 4)])
    await harness.call("LTRIM", harness.keys.wait, 0, AT_ONCE)
    await queue.add_many([("later", n, JobOptions(delay=AN_HOUR)) for n in range(70)])
    iteration = await schedule(harness)
    await harness.call("SET", harness.keys.of("1").lock, "x")

    before = await harness.everything()
    assert sorted(await queue.remove_orphans(dry_run=True)) == ["1", "2", "3"]
    assert await harness.everything() == before
    assert len(await queue.remove_orphans(limit=1)) == 1
    assert len(await queue.remove_orphans()) == 2

    assert await harness.hash(iteration)
    assert await harness.call("EXISTS", "bull:mail:repeat:s") == 1
    assert len(await queue.get_jobs("waiting", limit=None)) == AT_ONCE + 2


async def test_events_can_be_trimmed(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("work", n) for n in range(600)])

    assert await queue.trim_events(0) > 0

    assert len(await harness.events()) < 200


async def test_a_job_that_fails_again_meanwhile_is_retried_once_by_one_call(
    queue: Queue, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        await queue.add("work", n, ONE_TRY)
        await harness.fail(await harness.claim_one())
    worker = BullSource(harness.store, harness.keys, ClaimOptions(worker="w"))
    one_page = scripts.retry_jobs

    async def fails_again(*args: Any, **given: Any) -> int:
        found = await one_page(*args, **given)
        await asyncio.sleep(0.002)
        for claim in (await worker.settle([], claim=1)).claims:
            await worker.settle([Settled(claim, Failed(RuntimeError()))], claim=0)
        return found

    monkeypatch.setattr(ends, "SWEPT_AT_ONCE", 1)
    monkeypatch.setattr(scripts, "retry_jobs", fails_again)

    assert await queue.retry_all() == 2


@pytest.mark.parametrize("way", ["due", "promoted", "all promoted", "signalled"])
async def test_every_way_out_of_delayed_leaves_the_same_job(
    queue: Queue, harness: Harness, way: str
) -> None:
    async def wait_for(job: Job) -> None:
        if way == "signalled":
            with contextlib.suppress(JobDelayed):
                await job.wait_for("go")

    id = await harness.add(delay=0 if way == "signalled" else 60)
    match way:
        case "due":
            await harness.clock.advance(61)
            await harness.hand_back(await harness.claim_one())
        case "promoted":
            job = await queue.get_job(id)
            assert job
            await job.promote()
        case "all promoted":
            assert await queue.promote_all() == 1
        case _:
            await wait_for((await harness.claim_one()).work)
            assert await queue.state(id) == "delayed"
            await queue.signal(id, "go")

    assert await queue.state(id) == "waiting"
    assert (await harness.hash(id))["delay"] == "0"


async def test_only_failed_jobs_are_retried_as_dead_letters(queue: Queue, harness: Harness) -> None:
    id = await harness.add(attempts=1)
    await harness.fail(await harness.claim_one())
    assert await queue.dead_letters.retry(id) == 1
    await harness.complete(await harness.claim_one())

    assert await queue.dead_letters.retry(id) == 0
    assert await queue.state(id) == "completed"
    assert await queue.retry(id) == 1
