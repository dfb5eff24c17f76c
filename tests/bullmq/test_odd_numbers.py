"""Numbers that another client has written: whatever they are, jobs go on."""

import asyncio
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Keep, Limit, Queue, Schedule, Worker
from waystation.bullmq.source import BullSource, ClaimOptions
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Settled

ODD = ["2.5", "-1", "0", "1e20", "nan", "inf", "0x10", "", "text", "[1]"]
META: list[dict[str, str]] = [
    {"concurrency": "?"},
    {"max": "?", "duration": "1000"},
    {"max": "2", "duration": "?"},
    {"opts.maxLenEvents": "?"},
    {"history": "?:?"},
]


def filled(fields: dict[str, str], odd: str) -> dict[str, str]:
    return {name: value.replace("?", odd) for name, value in fields.items()}


@pytest.mark.parametrize("fields", META, ids=lambda each: " ".join(each))
async def test_jobs_go_on_whatever_a_limit_of_the_queue_says(
    queue: Queue, harness: Harness, fields: dict[str, str]
) -> None:
    for odd in ODD:
        await queue.obliterate(force=True)
        await harness.call("HSET", harness.keys.meta, *sum(filled(fields, odd).items(), ()))
        await queue.add_many([("work", n) for n in range(3)])
        done = 0
        for claim in await harness.claim(5):
            assert await harness.complete(claim) is None
            done += 1

        assert done, odd
        assert await harness.call("PTTL", harness.keys.limiter) != -1, odd
        assert len(await harness.ids("active")) == 0, odd
        assert (await queue.counts("completed"))["completed"] == done
        await queue.limits.get_concurrency()
        await queue.limits.get_rate_limit()
        await queue.limits.is_maxed()
        await queue.limits.rate_limit_ttl()


@pytest.mark.parametrize("ms", [0, 60_000])
async def test_a_counter_of_the_limit_that_is_no_number_or_has_no_end_holds_nobody_for_ever(
    harness: Harness, ms: int
) -> None:
    for odd in ODD:
        worker = harness.source(limiter=Limit(2, 60))
        await harness.redis.flushdb()
        await harness.add()
        await harness.call("SET", harness.keys.limiter, odd, *(("PX", ms) if ms else ()))
        claims = (await worker.settle([], claim=1)).claims
        if ms == 0 or odd not in ("2.5", "1e20", "inf", "0x10"):
            assert len(claims) == 1, odd
        assert await harness.call("PTTL", harness.keys.limiter) > 0


@pytest.mark.parametrize("field", ["priority", "delay", "atm", "ats", "stc", "timestamp", "parts"])
async def test_a_job_with_an_odd_number_ends_and_the_next_one_runs(
    queue: Queue, harness: Harness, field: str
) -> None:
    for odd in ODD:
        await queue.obliterate(force=True)
        id = await harness.add(attempts=1)
        await harness.call("HSET", harness.keys.of(id).job, field, odd)
        await harness.hand_back(await harness.claim_one())
        await harness.lapse()
        job = await queue.get_job(id)
        assert job
        await job.refresh()
        next_id = await harness.add()
        ended = set[str]()
        for _ in range(2):
            claim = await harness.claim_one()
            assert await harness.complete(claim) is None
            ended.add(claim.id)
        assert ended == {id, next_id}, odd


@pytest.mark.parametrize("field", ["every", "offset", "ic", "startDate", "endDate", "limit"])
async def test_a_scheduler_with_an_odd_number_keeps_nobody_from_running(
    queue: Queue, harness: Harness, field: str
) -> None:
    for odd in ODD:
        await queue.obliterate(force=True)
        first = await queue.schedulers.upsert("s", Schedule(every=0.05), name="tick")
        await harness.call("HSET", f"{harness.keys.repeat}:s", field, odd)
        ran: list[str] = []

        async def handler(job: Job, ran: list[str] = ran) -> None:
            ran.append(job.name)

        async with Worker("mail", handler, harness.store), asyncio.timeout(LIMIT_S):
            await queue.add("good")
            while "good" not in ran or "tick" not in ran:
                await asyncio.sleep(0.005)
        assert first
        await queue.schedulers.list()


async def test_a_window_that_has_begun_lets_only_the_rest_through(harness: Harness) -> None:
    worker = harness.source(limiter=Limit(5, 60))
    for _ in range(20):
        await harness.add()

    started = [len((await worker.settle([], claim=many)).claims) for many in (2, 10, 1)]

    assert started == [2, 3, 0]
    assert await harness.call("GET", harness.keys.limiter) == b"5"


async def test_a_job_that_is_only_picked_up_to_fail_uses_no_start(harness: Harness) -> None:
    worker = harness.source(limiter=Limit(2, 60))
    for n in range(4):
        id = await harness.add()
        if n < 2:
            await harness.call("HSET", harness.keys.of(id).job, "defa", "a child failed")

    started = [len((await worker.settle([], claim=1)).claims) for _ in range(5)]

    assert started == [1, 1, 1, 1, 0]


async def followed(harness: Harness) -> None:
    """Let a history follow the queue."""
    await harness.call("HSET", harness.keys.meta, "history", f"0:{harness.clock.now_ms() + 10**9}")


async def test_a_job_that_is_too_much_for_its_history_costs_nobody_an_outcome(
    harness: Harness,
) -> None:
    await followed(harness)
    for _ in range(31):
        await harness.add(remove_on_complete=True)
    claims = await harness.claim(31)
    fields: list[Any] = [part for n in range(4100) for part in (f"step:{n}", n)]
    await harness.call("HSET", harness.keys.of(claims[15].id).job, *fields)

    reply = await harness.worker.settle([Settled(claim, Done(1)) for claim in claims], claim=0)

    assert len(reply.settled) == 31
    assert len(await harness.events("completed")) == 31
    assert len(await harness.events("kept")) == 30
    assert await harness.ids("active") == []


async def test_what_a_history_keeps_of_large_jobs_is_bounded_by_its_size(harness: Harness) -> None:
    await followed(harness)
    async with harness.redis.pipeline(transaction=False) as pipe:
        for _ in range(2100):
            pipe.execute_command(
                "XADD", harness.keys.events, "*", "event", "kept", "data", b"x" * 65536
            )
        await pipe.execute()
    await harness.add("y" * 10_000, remove_on_complete=True)
    await harness.complete(await harness.claim_one())

    assert await harness.call("XLEN", harness.keys.events) < 1200


async def test_a_number_of_jobs_to_keep_is_reached_in_bounded_steps(harness: Harness) -> None:
    old = [part for n in range(3500) for part in (n, f"old{n}")]
    for first in range(0, len(old), 1000):
        await harness.call("ZADD", harness.keys.completed, *old[first : first + 1000])
    left: list[int] = []
    for _ in range(4):
        await harness.add(remove_on_complete=Keep(count=10))
        await harness.complete(await harness.claim_one())
        left.append(await harness.call("ZCARD", harness.keys.completed))

    assert left == [2501, 1502, 503, 10]


async def test_an_outcome_that_failed_by_number_keeps_the_order_of_what_goes(
    harness: Harness,
) -> None:
    source = BullSource(harness.store, harness.keys, ClaimOptions(worker="w"), clock=harness.clock)
    for n in range(4):
        await harness.add(job_id=f"j{n}", attempts=1, remove_on_fail=Keep(count=2))
        [claim] = (await source.settle([], claim=1)).claims
        await source.settle([Settled(claim, Failed(RuntimeError()))], claim=0)
        await harness.clock.advance(1)

    assert await harness.ids("failed") == ["j2", "j3"]
