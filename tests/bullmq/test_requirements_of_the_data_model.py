"""The data model of the spec, each statement as the behaviour it asks for.

Where a decision overrides the letter, the decided behaviour is tested and the docstring says so.
"""

import asyncio
import json
import re
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import Backoff, Job, JobOptions, Queue, Worker
from waystation.core import identity
from waystation.core.errors import PayloadTooLarge

EMAIL = {"to": "user@example.com", "subject": "Welcome!", "body": "Thank you for signing up."}
PAYMENT = {
    "orderId": "order-123",
    "amount": 99.99,
    "currency": "USD",
    "paymentMethod": "credit_card",
}


# --- jobs ----------------------------------------------------------------------------------------


async def test_a_job_tells_everything_the_model_has(harness: Harness, redis_url: str) -> None:
    """D-1, D-9, D-11: what has not happened is None; by decision the wire has no "0" for it."""
    id = await harness.add({"a": 1}, name="send", priority=2)
    async with Queue("mail", redis_url) as queue:
        job = await queue.get_job(id)
    assert job is not None
    assert (job.id, job.name, job.data, job.priority, job.delay_ms) == ("1", "send", {"a": 1}, 2, 0)
    assert (job.created_ms, job.token) == (harness.clock.now_ms(), None)
    assert (job.attempts_made, job.attempts_started, job.progress) == (0, 0, 0)
    assert (job.started_ms, job.finished_ms, job.processed_by) == (None, None, None)
    assert (job.result, job.failed_reason, job.stacktrace) == (None, None, [])
    assert job.options.attempts == 3
    assert (await harness.claim_one()).work.token


async def test_the_hash_has_bullmqs_names_and_never_the_token(harness: Harness) -> None:
    """D-2, D-19: by decision `pb`, `ats` and `atm` for what the model calls otherwise."""
    id = await harness.add(attempts=2, backoff=None)
    await harness.fail(await harness.claim_one())
    claim = await harness.claim_one()
    await harness.complete(claim, {"ok": True})
    stored = await harness.hash(id)
    assert set(stored) == {
        *("name", "data", "opts", "timestamp", "delay", "priority", "processedOn", "pb", "ats"),
        *("atm", "failedReason", "stacktrace", "returnvalue", "finishedOn"),
    }
    for field in ("data", "opts", "returnvalue", "stacktrace"):
        json.loads(stored[field])
    assert not any(claim.token in value for value in stored.values())


async def test_a_name_of_ones_own_is_one_job_however_often_it_is_added(
    harness: Harness, redis_url: str
) -> None:
    """D-3, F-D1: numbers come from the counter; by decision a second add gives the first job."""
    async with Queue("mail", redis_url) as queue:
        first = await queue.add("pay", {"amount": 1}, job_id="payment-789")
        second = await queue.add("pay", {"amount": 2}, job_id="payment-789")
    assert first.id == second.id == "payment-789"
    assert json.loads((await harness.hash("payment-789"))["data"]) == {"amount": 1}
    assert await harness.ids("wait") == ["payment-789"]
    assert len(await harness.events("duplicated")) == 1


@pytest.mark.parametrize("data", [{}, [], 0, "", "text", {"deep": [{"er": None}]}])
async def test_a_job_has_a_name_and_any_json_as_data(
    harness: Harness, redis_url: str, data: Any
) -> None:
    """D-4, D-5, D-6, D-14, F-D4: no data is `{}`, and no options are the defaults."""
    async with Queue("mail", redis_url) as queue:
        await queue.add("send", data)
        await queue.add("send")
    job, bare = [claim.work for claim in await harness.claim(2)]
    assert (job.name, job.data) == ("send", data)
    assert bare.data == {}
    assert job.options.attempts == JobOptions().attempts
    assert job.created_ms > 0


def test_a_worker_is_named_after_its_host_and_process() -> None:
    """D-12."""
    name = identity.worker_name(host="mail-3", pid=4711)
    assert re.fullmatch(r"mail-3-4711-[0-9a-f]{8}", name)


def test_a_lock_token_begins_with_a_uuid() -> None:
    """D-13: by decision followed by the number of the call, as Node's."""
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", identity.lease_token())


async def test_a_payload_beyond_the_limit_is_refused_in_words(redis_url: str) -> None:
    """D-16, D-17, D-49: the documentation says where to put what is too large."""
    async with Queue("mail", redis_url) as queue:
        with pytest.raises(PayloadTooLarge) as refused:
            await queue.add("send", "x" * round(12.3 * 2**20))
    assert str(refused.value).startswith("Job payload size 12.3 MB exceeds limit of 10.0 MB")
    assert "elsewhere" in f"{refused.value} {Queue.__doc__}"


async def test_a_job_goes_from_state_to_state(harness: Harness) -> None:
    """D-18, F-P8: nothing else moves a job that waits for its next attempt back into the line."""
    id = await harness.add(attempts=2, backoff=Backoff.fixed(1))
    seen = [await harness.where(id)]
    await harness.claim_one()
    seen.append(await harness.where(id))
    await harness.lapse()
    seen.append(await harness.where(id))
    await harness.fail(await harness.claim_one())
    seen.append(await harness.where(id))
    await harness.clock.advance(1)
    await harness.complete(await harness.claim_one())
    seen.append(await harness.where(id))
    assert seen == [["wait"], ["active"], ["wait"], ["delayed"], ["completed"]]


# --- events --------------------------------------------------------------------------------------


async def test_what_happens_is_told_in_one_stream(harness: Harness) -> None:
    """D-33, D-34, D-35, D-37: by decision the instant is the stream's id."""
    await harness.add(attempts=2, backoff=None)
    await harness.fail(await harness.claim_one())
    claim = await harness.claim_one()
    await claim.work.update_progress(50)
    await harness.complete(claim)
    assert harness.keys.events == "bull:mail:events"
    events = await harness.events()
    assert [event["event"] for event in events] == [
        *("added", "waiting", "active", "waiting", "retry", "active", "progress", "completed"),
        "drained",
    ]
    assert all(event["jobId"] == "1" for event in events[:-1])


async def test_the_stream_keeps_about_as_many_as_the_queue_says(harness: Harness) -> None:
    """D-36, D-45, F-P10: by decision the cap is `opts.maxLenEvents`, 10000 by default."""
    await harness.add()
    assert await harness.call("HGET", harness.keys.meta, "opts.maxLenEvents") == b"10000"
    await harness.call("HSET", harness.keys.meta, "opts.maxLenEvents", 100)
    for _ in range(300):
        await harness.add()
    assert await harness.call("XLEN", harness.keys.events) < 350


# --- structure -----------------------------------------------------------------------------------


async def test_only_an_active_job_has_a_lock(harness: Harness) -> None:
    """D-38."""
    wishes: list[dict[str, Any]] = [{}, {"delay": 1000}, {"priority": 1}, {}]
    for options in wishes:
        await harness.add(**options)
    first, second = await harness.claim(2)
    await harness.complete(first)
    locks = [key for key in await harness.everything() if key.endswith(":lock")]
    assert locks == [harness.keys.of(second.id).lock]


async def test_every_state_is_kept_in_its_type(harness: Harness) -> None:
    """D-39: by decision with BullMQ's scores."""
    wishes: list[dict[str, Any]] = [{}, {}, {}, {"priority": 1}, {"delay": 1000}, {}]
    for options in wishes:
        await harness.add(attempts=1, **options)
    done, failed, _ = await harness.claim(3)
    await harness.complete(done)
    await harness.fail(failed)
    types = {
        state: await harness.call("TYPE", f"{harness.keys.base}{state}")
        for state in ("wait", "active", "prioritized", "delayed", "completed", "failed")
    }
    assert types == {
        "wait": b"list",
        "active": b"list",
        "prioritized": b"zset",
        "delayed": b"zset",
        "completed": b"zset",
        "failed": b"zset",
    }


async def test_one_step_stays_short_whatever_the_queue_holds(harness: Harness) -> None:
    """D-43: as the server itself measures it, at its best of a few; 10k active jobs."""
    async with harness.redis.pipeline(transaction=False) as pipe:
        for number in range(10_000):
            pipe.hset(f"{harness.keys.base}old-{number}", "name", "work")
            pipe.lpush(harness.keys.active, f"old-{number}")
            pipe.set(f"{harness.keys.base}old-{number}:lock", "token")
        await pipe.execute()
    checks: list[float] = []
    for _ in range(5):
        await harness.redis.delete(harness.keys.stalled_check)
        checks.append(await _server_ms(harness, harness.check_stalled()))
    assert min(checks) < 100

    claims: list[float] = []
    for _ in range(5):
        await harness.add()
        claims.append(await _server_ms(harness, harness.claim()))
    assert min(claims) < 5


async def _server_ms(harness: Harness, step: Any) -> float:
    await harness.call("CONFIG", "RESETSTAT")
    await step
    stats: dict[str, Any] = await harness.redis.info("commandstats")
    used = [stats[name]["usec"] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in stats]
    return sum(used) / 1000


async def test_nothing_of_a_job_runs_out_by_itself(harness: Harness) -> None:
    """D-46."""
    for _ in range(2):
        await harness.add(attempts=1)
    done, failed = await harness.claim(2)
    await harness.complete(done)
    await harness.fail(failed)
    ttls = [await harness.redis.ttl(key) for key in await harness.everything()]
    assert set(ttls) == {-1}


async def test_two_workers_never_do_the_same_job(harness: Harness, redis_url: str) -> None:
    """D-47."""
    ids = [await harness.add() for _ in range(100)]
    done: list[str] = []

    async def handle(job: Job) -> None:
        await asyncio.sleep(0)
        done.append(job.id)

    async with (
        Worker("mail", handle, redis_url, concurrency=5),
        Worker("mail", handle, redis_url, concurrency=5),
        asyncio.timeout(LIMIT_S),
    ):
        while len(await harness.ids("completed")) < 100:
            await asyncio.sleep(0.01)
    assert sorted(done) == sorted(ids)


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("send-email", EMAIL, {"priority": 5, "backoff": Backoff.exponential(1)}),
        (
            "process-payment",
            PAYMENT,
            {
                "job_id": "payment-789",
                "priority": 10,
                "attempts": 5,
                "backoff": Backoff.exponential(2),
            },
        ),
    ],
)
async def test_the_examples_arrive_as_they_were_sent(
    harness: Harness, redis_url: str, name: str, data: Any, options: dict[str, Any]
) -> None:
    """D-48."""
    async with Queue("mail", redis_url) as queue:
        added = await queue.add(name, data, **options)
        found = await queue.get_job(added.id)
    assert found is not None
    assert (found.name, found.data, found.priority) == (name, data, options["priority"])
    assert found.options.backoff == options["backoff"]
    assert found.options.attempts == options.get("attempts", 3)
