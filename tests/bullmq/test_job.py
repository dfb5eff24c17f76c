import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq.events.stream import QueueEvents
from waystation.bullmq.job import Job
from waystation.bullmq.options import Deduplication
from waystation.bullmq.queue import Queue
from waystation.bullmq.states import STATES
from waystation.core.durations import instant
from waystation.core.errors import (
    InvalidInput,
    InvalidOption,
    JobFailed,
    LeaseLost,
    NotFound,
    WrongState,
)

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def failed_job(queue: Queue, harness: Harness, **options: Any) -> Job:
    job = await queue.add("work", attempts=1, **options)
    await harness.fail(await harness.claim_one(), "broken")
    return job


async def test_data_can_be_replaced(queue: Queue) -> None:
    job = await queue.add("work", {"n": 1})

    await job.update_data({"n": [2]})

    assert job.data == {"n": [2]}
    found = await queue.get_job(job.id)
    assert found
    assert found.data == {"n": [2]}


async def test_progress_that_cannot_be_written_is_refused(queue: Queue, harness: Harness) -> None:
    """P-42: by decision any number, as in BullMQ; NaN is none."""
    job = await queue.add("work")

    with pytest.raises(InvalidInput, match="JSON has no way to write nan"):
        await job.update_progress(float("nan"))

    assert "progress" not in await harness.hash(job.id)


async def test_log_lines_are_kept_in_order(queue: Queue) -> None:
    job = await queue.add("work")

    assert [await job.log(line) for line in ("one", "two", "three")] == [1, 2, 3]

    assert await job.logs() == (["one", "two", "three"], 3)
    assert await job.logs(limit=2, newest_first=True) == (["three", "two"], 3)
    assert await queue.logs(job.id, 1, 1) == (["two"], 3)


async def test_the_newest_log_lines_are_kept(queue: Queue, harness: Harness) -> None:
    """D-44: in `bull:<queue>:<id>:logs`, the oldest at the left."""
    short = await queue.add("work", keep_logs=2)
    long = await queue.add("work")

    assert [await short.log(n) for n in range(3)] == [1, 2, 2]
    for n in range(1001):
        await long.log(str(n))

    assert (await short.logs()).lines == ["1", "2"]
    kept = await harness.call("LRANGE", "bull:mail:2:logs", 0, -1)
    assert (len(kept), kept[0], kept[-1]) == (1000, b"1", b"1000")
    assert (await long.logs()).total == 1000
    await long.clear_logs(keep=1)
    assert (await long.logs()).lines == ["1000"]
    await long.clear_logs()
    assert await long.logs() == ([], 0)


async def test_a_delayed_job_can_be_promoted(queue: Queue, harness: Harness) -> None:
    plain = await queue.add("work", delay=AN_HOUR)
    urgent = await queue.add("work", delay=AN_HOUR, priority=3)

    await plain.promote()
    await urgent.promote()

    assert await plain.is_waiting()
    assert await urgent.state() == "prioritized"
    assert (await harness.hash(plain.id))["delay"] == "0"
    assert [event["prev"] for event in (await harness.events("waiting"))] == ["delayed", "delayed"]
    with pytest.raises(WrongState, match=f"job {plain.id} is not delayed"):
        await plain.promote()


async def test_a_delay_can_be_changed(queue: Queue, harness: Harness) -> None:
    job = await queue.add("work", delay=AN_HOUR)
    other = await queue.add("work")

    await job.change_delay(2 * AN_HOUR)

    due = await harness.redis.zscore(harness.keys.delayed, job.id)
    assert due is not None
    assert due / 4096 == pytest.approx(time.time() * 1000 + 2 * HOUR, abs=60_000)
    with pytest.raises(WrongState, match="is not delayed"):
        await other.change_delay(AN_HOUR)
    with pytest.raises(InvalidOption, match="delay must be a timedelta or seconds, at least 0"):
        await job.change_delay(-0.001)


async def test_a_priority_can_be_changed(queue: Queue, harness: Harness) -> None:
    first = await queue.add("work", priority=2)
    second = await queue.add("work", priority=2)
    third = await queue.add("work")

    await third.change_priority(2)
    assert await harness.ids("prioritized") == [first.id, second.id, third.id]
    await third.change_priority(2, lifo=True)
    assert await harness.ids("prioritized") == [third.id, first.id, second.id]
    await second.change_priority()

    assert await harness.ids("wait") == [second.id]
    assert (await harness.hash(third.id))["priority"] == "2"
    with pytest.raises(InvalidOption, match="priority must be at least 0, got -1"):
        await first.change_priority(-1)
    with pytest.raises(InvalidOption, match="priority must be at most 2097151, got 2097152"):
        await first.change_priority(2_097_152)
    with pytest.raises(InvalidOption, match="priority must be a whole number, got '1'"):
        await first.change_priority("1")  # pyright: ignore[reportArgumentType]


async def test_a_failed_job_can_be_retried(queue: Queue, harness: Harness) -> None:
    job = await failed_job(queue, harness)

    await job.retry()

    assert await job.is_waiting()
    stored = await harness.hash(job.id)
    assert {"finishedOn", "processedOn", "failedReason"}.isdisjoint(stored)
    assert stored["atm"] == "1"
    assert (await harness.events())[-1] == {"event": "waiting", "jobId": job.id, "prev": "failed"}
    with pytest.raises(WrongState, match="is not failed"):
        await job.retry()


async def test_a_retried_job_may_start_counting_anew(queue: Queue, harness: Harness) -> None:
    job = await failed_job(queue, harness, priority=4)

    await job.retry(reset_attempts_made=True, reset_attempts_started=True)

    assert {"atm", "ats"}.isdisjoint(await harness.hash(job.id))
    assert await harness.ids("prioritized") == [job.id]


async def test_a_completed_job_can_be_run_again(queue: Queue, harness: Harness) -> None:
    job = await queue.add("work")
    await harness.complete(await harness.claim_one(), 7)

    await job.retry("completed")

    assert await job.is_waiting()
    assert "returnvalue" not in await harness.hash(job.id)


async def test_a_job_is_removed_from_wherever_it_is(queue: Queue, harness: Harness) -> None:
    jobs = [
        await queue.add("work", deduplication=Deduplication("x")),
        await queue.add("work", priority=1),
        await queue.add("work", delay=AN_HOUR),
        await failed_job(queue, harness, lifo=True),
    ]
    await jobs[0].log("hi")

    for job in jobs:
        await job.remove()

    assert [event["prev"] for event in await harness.events("removed")] == [
        "wait",
        "prioritized",
        "delayed",
        "failed",
    ]
    assert await queue.counts() == dict.fromkeys(await queue.counts(), 0)
    left = {key.decode() for key in await harness.call("KEYS", "*")}
    assert left <= {f"bull:mail:{name}" for name in ("meta", "id", "events", "marker", "pc")}


async def test_a_job_that_a_worker_holds_is_not_removed(queue: Queue, harness: Harness) -> None:
    job = await queue.add("work")
    claim = await harness.claim_one()

    assert not await queue.remove(job.id)
    with pytest.raises(WrongState, match="held by a worker"):
        await job.remove()

    assert await harness.complete(claim) is None
    assert await queue.remove(job.id)
    assert await queue.remove("never there")


async def test_a_job_is_removed_only_while_it_is_in_the_state_that_was_asked_for(
    queue: Queue, harness: Harness
) -> None:
    job = await queue.add("work")
    for state in STATES:
        assert await queue.remove(job.id, state=state) is (state == "waiting")
    assert await queue.get_job(job.id) is None

    job = await queue.add("work", delay=60)
    assert not await queue.remove(job.id, state="waiting")
    await job.promote()
    assert not await queue.remove(job.id, state="delayed")
    claim = await harness.claim_one()
    assert not await queue.remove(job.id, state="active")
    assert await harness.complete(claim) is None
    assert not await queue.remove(job.id, state="failed")
    assert await queue.remove(job.id, state="completed")
    assert not await queue.remove("never there", state="completed")
    with pytest.raises(InvalidOption, match="a state is one of"):
        await queue.remove(job.id, state="odd")  # pyright: ignore[reportArgumentType]


async def test_the_holder_can_move_a_job_to_a_later_time(queue: Queue, harness: Harness) -> None:
    await queue.add("work")
    job = (await harness.claim_one()).work
    due = time.time_ns() // 1_000_000 + HOUR

    await job.move_to_delayed(instant(due))

    assert await job.is_delayed()
    assert (await harness.events("delayed")) == [
        {"event": "delayed", "jobId": job.id, "delay": str(due)}
    ]
    assert "atm" not in await harness.hash(job.id)
    assert await harness.redis.exists(harness.keys.of(job.id).lock) == 0


async def test_the_holder_can_put_a_job_back_to_the_head(queue: Queue, harness: Harness) -> None:
    await queue.add("work")
    await queue.add("behind")
    job = (await harness.claim_one()).work

    assert await job.move_to_wait() == timedelta(0)

    assert await harness.ids("wait") == ["2", job.id]
    assert (await harness.claim_one()).id == job.id


async def test_only_the_holder_can_move_a_job(queue: Queue, harness: Harness) -> None:
    job = await queue.add("work")
    held = (await harness.claim_one()).work

    with pytest.raises(WrongState, match="not held by this worker"):
        await job.move_to_wait()
    with pytest.raises(LeaseLost, match="held by somebody else"):
        await job.move_to_delayed(instant(0), token="another")
    await harness.redis.delete(harness.keys.of(job.id).lock)
    with pytest.raises(LeaseLost, match="has run out"):
        await held.move_to_wait()

    assert await job.is_active()


async def test_the_holder_can_extend_its_lock(queue: Queue, harness: Harness) -> None:
    await queue.add("work")
    job = (await harness.claim_one()).work

    await job.extend_lock(AN_HOUR)

    assert await harness.redis.pttl(harness.keys.of(job.id).lock) > HOUR / 2
    with pytest.raises(LeaseLost):
        await job.extend_lock(AN_HOUR, token="another")


async def test_a_job_says_where_it_is(queue: Queue, harness: Harness) -> None:
    job = await queue.add("work", attempts=1)
    await queue.pause()
    assert await job.is_paused()
    await queue.resume()
    assert not await job.is_paused()
    assert await job.state() == "waiting"
    claim = await harness.claim_one()
    assert await job.is_active()
    await harness.complete(claim)
    assert await job.is_completed()
    assert not await job.is_failed()
    assert not await job.is_waiting_children()
    await job.remove()
    assert await job.state() == "unknown"


async def test_what_is_gone_cannot_be_changed(queue: Queue) -> None:
    job = await queue.add("work")
    await job.remove()

    for step in (
        job.update_data(1),
        job.update_progress(1),
        job.log("hi"),
        job.change_priority(1),
        job.change_delay(0.001),
        job.retry(),
        job.refresh(),
    ):
        with pytest.raises(NotFound, match=f"there is no job {job.id}"):
            await step


async def test_the_owner_frees_its_deduplication_key(queue: Queue) -> None:
    job = await queue.add("work", deduplication=Deduplication("x"))
    plain = await queue.add("work")

    assert await job.remove_deduplication_key()
    assert not await job.remove_deduplication_key()
    assert not await plain.remove_deduplication_key()
    assert (await queue.add("work", deduplication=Deduplication("x"))).id != job.id


async def test_waiting_for_a_job_gives_its_result(queue: Queue, harness: Harness) -> None:
    job = await queue.add("work")
    waiting = asyncio.create_task(job.wait())
    await harness.complete(await harness.claim_one(), {"sum": 3})

    assert await waiting == {"sum": 3}


async def test_waiting_for_a_job_that_fails_raises_its_reason(
    queue: Queue, harness: Harness
) -> None:
    job = await failed_job(queue, harness)

    with pytest.raises(JobFailed, match=r"^broken$"):
        await job.wait()


async def test_waiting_for_a_job_ends_in_time(queue: Queue) -> None:
    job = await queue.add("work")

    with pytest.raises(TimeoutError, match=r"has not finished within 0\.001 s"):
        await job.wait(timeout=0.001)


async def test_a_listener_hears_the_end_of_a_job_that_is_not_kept(
    queue: Queue, harness: Harness, redis_url: str
) -> None:
    async with QueueEvents("mail", redis_url) as events:
        job = await queue.add("work", remove_on_complete=True)
        waiting = asyncio.create_task(job.wait(10, events))
        await harness.complete(await harness.claim_one(), "done")

        assert await waiting == "done"
    with pytest.raises(NotFound, match="its end was not kept"):
        await job.wait()


async def test_a_discarded_job_is_not_tried_again(queue: Queue, harness: Harness) -> None:
    job = await queue.add("work", attempts=5)
    claim = await harness.claim_one()

    claim.work.discard()
    await harness.fail(claim)

    assert await job.is_failed()
