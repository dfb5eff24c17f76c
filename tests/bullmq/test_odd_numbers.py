"""Numbers that another client has written: whatever they are, jobs go on."""

import asyncio
from typing import Any

import pytest

from tests.bullmq.hands import Hands
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
    queue: Queue, hands: Hands, fields: dict[str, str]
) -> None:
    for odd in ODD:
        await queue.obliterate(force=True)
        await hands.call("HSET", hands.keys.meta, *sum(filled(fields, odd).items(), ()))
        await queue.add_many([("work", n) for n in range(3)])
        done = 0
        for claim in await hands.claim(5):
            assert await hands.complete(claim) is None
            done += 1

        assert done, odd
        assert await hands.call("PTTL", hands.keys.limiter) != -1, odd
        assert len(await hands.ids("active")) == 0, odd
        assert (await queue.counts("completed"))["completed"] == done
        await queue.limits.get_concurrency()
        await queue.limits.get_rate_limit()
        await queue.limits.is_maxed()
        await queue.limits.rate_limit_ttl()


@pytest.mark.parametrize("ms", [0, 60_000])
async def test_a_counter_of_the_limit_that_is_no_number_or_has_no_end_holds_nobody_for_ever(
    hands: Hands, ms: int
) -> None:
    for odd in ODD:
        worker = hands.source(limiter=Limit(2, 60))
        await hands.redis.flushdb()
        await hands.add()
        await hands.call("SET", hands.keys.limiter, odd, *(("PX", ms) if ms else ()))
        claims = (await worker.settle([], claim=1)).claims
        if ms == 0 or odd not in ("2.5", "1e20", "inf", "0x10"):
            assert len(claims) == 1, odd
        assert await hands.call("PTTL", hands.keys.limiter) > 0


@pytest.mark.parametrize("field", ["priority", "delay", "atm", "ats", "stc", "timestamp", "parts"])
async def test_a_job_with_an_odd_number_ends_and_the_next_one_runs(
    queue: Queue, hands: Hands, field: str
) -> None:
    for odd in ODD:
        await queue.obliterate(force=True)
        id = await hands.add(attempts=1)
        await hands.call("HSET", hands.keys.of(id).job, field, odd)
        await hands.hand_back(await hands.claim_one())
        await hands.lapse()
        job = await queue.get_job(id)
        assert job
        await job.refresh()
        next_id = await hands.add()
        ended = set[str]()
        for _ in range(2):
            claim = await hands.claim_one()
            assert await hands.complete(claim) is None
            ended.add(claim.id)
        assert ended == {id, next_id}, odd


@pytest.mark.parametrize("field", ["every", "offset", "ic", "startDate", "endDate", "limit"])
async def test_a_scheduler_with_an_odd_number_keeps_nobody_from_running(
    queue: Queue, hands: Hands, field: str
) -> None:
    for odd in ODD:
        await queue.obliterate(force=True)
        first = await queue.schedulers.upsert("s", Schedule(every=0.05), name="tick")
        await hands.call("HSET", f"{hands.keys.repeat}:s", field, odd)
        ran: list[str] = []

        async def handler(job: Job, ran: list[str] = ran) -> None:
            ran.append(job.name)

        async with Worker("mail", handler, hands.store), asyncio.timeout(LIMIT_S):
            await queue.add("good")
            while "good" not in ran or "tick" not in ran:
                await asyncio.sleep(0.005)
        assert first
        await queue.schedulers.list()


async def test_a_window_that_has_begun_lets_only_the_rest_through(hands: Hands) -> None:
    worker = hands.source(limiter=Limit(5, 60))
    for _ in range(20):
        await hands.add()

    started = [len((await worker.settle([], claim=many)).claims) for many in (2, 10, 1)]

    assert started == [2, 3, 0]
    assert await hands.call("GET", hands.keys.limiter) == b"5"


async def test_a_job_that_is_only_picked_up_to_fail_uses_no_start(hands: Hands) -> None:
    worker = hands.source(limiter=Limit(2, 60))
    for n in range(4):
        id = await hands.add()
        if n < 2:
            await hands.call("HSET", hands.keys.of(id).job, "defa", "a child failed")

    started = [len((await worker.settle([], claim=1)).claims) for _ in range(5)]

    assert started == [1, 1, 1, 1, 0]


async def followed(hands: Hands) -> None:
    """Let a history follow the queue."""
    await hands.call("HSET", hands.keys.meta, "history", f"0:{hands.clock.now_ms() + 10**9}")


async def test_a_job_that_is_too_much_for_its_history_costs_nobody_an_outcome(
    hands: Hands,
) -> None:
    await followed(hands)
    for _ in range(31):
        await hands.add(remove_on_complete=True)
    claims = await hands.claim(31)
    fields: list[Any] = [part for n in range(4100) for part in (f"step:{n}", n)]
    await hands.call("HSET", hands.keys.of(claims[15].id).job, *fields)

    reply = await hands.worker.settle([Settled(claim, Done(1)) for claim in claims], claim=0)

    assert len(reply.settled) == 31
    assert len(await hands.events("completed")) == 31
    assert len(await hands.events("kept")) == 30
    assert await hands.ids("active") == []


async def test_what_a_history_keeps_of_large_jobs_is_bounded_by_its_size(hands: Hands) -> None:
    await followed(hands)
    async with hands.redis.pipeline(transaction=False) as pipe:
        for _ in range(2100):
            pipe.execute_command(
                "XADD", hands.keys.events, "*", "event", "kept", "data", b"x" * 65536
            )
        await pipe.execute()
    await hands.add("y" * 10_000, remove_on_complete=True)
    await hands.complete(await hands.claim_one())

    assert await hands.call("XLEN", hands.keys.events) < 1200


async def test_a_number_of_jobs_to_keep_is_reached_in_bounded_steps(hands: Hands) -> None:
    old = [part for n in range(3500) for part in (n, f"old{n}")]
    for first in range(0, len(old), 1000):
        await hands.call("ZADD", hands.keys.completed, *old[first : first + 1000])
    left: list[int] = []
    for _ in range(4):
        await hands.add(remove_on_complete=Keep(count=10))
        await hands.complete(await hands.claim_one())
        left.append(await hands.call("ZCARD", hands.keys.completed))

    assert left == [2501, 1502, 503, 10]


async def test_an_outcome_that_failed_by_number_keeps_the_order_of_what_goes(hands: Hands) -> None:
    source = BullSource(hands.store, hands.keys, ClaimOptions(worker="w"), clock=hands.clock)
    for n in range(4):
        await hands.add(job_id=f"j{n}", attempts=1, remove_on_fail=Keep(count=2))
        [claim] = (await source.settle([], claim=1)).claims
        await source.settle([Settled(claim, Failed(RuntimeError()))], claim=0)
        await hands.clock.advance(1)

    assert await hands.ids("failed") == ["j2", "j3"]
