"""What a job's keys hold."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.routing.harness import Harness
from waystation.core.errors import (
    InvalidInput,
    InvalidOption,
    LeaseLost,
    PayloadTooLarge,
    WrongState,
)
from waystation.core.outcome import Done, Failed
from waystation.routing import BackoffRule, JobOptions, Queue, Retry, Schedule, Target
from waystation.routing.job import Job
from waystation.routing.redis.wire import rewritten


async def test_job_data_is_json_without_a_ttl_and_goes_when_the_job_is_completed(
    harness: Harness,
) -> None:
    """B-9"""
    id = await harness.add("email", {"to": "a"})
    assert await harness.redis.ttl(f"bridge:jobs:data:{id}") == -1
    source = harness.source()
    (claim,) = await harness.claim(source)

    await harness.settle(source, claim)

    assert await harness.text(f"bridge:jobs:data:{id}") is None


async def test_job_json_has_the_documented_members(harness: Harness) -> None:
    """B-10"""
    options = JobOptions(
        target=Target(stack=("node",), capabilities=("gpu",), region=("eu",), mode="all"),
        schedule=Schedule(delay=5),
        retry=Retry(
            attempts=7,
            backoff=BackoffRule(type="linear", delay=0.01, max_delay=0.099, jitter=True),
            skip_on=("ValueError",),
            reroute_on=("OSError",),
        ),
        priority=8,
        metadata={"tenant": 7},
    )
    id = (await harness.queue.add("video", {"file": "x"}, options)).id

    job = json.loads(await harness.text(f"bridge:jobs:data:{id}") or "")

    assert job == {
        "jobId": id,
        "type": "video",
        "payload": {"file": "x"},
        "schedule": {"delay": 5000},
        "retry": {
            "attempts": 7,
            "backoff": {"type": "linear", "delay": 10, "maxDelay": 99, "jitter": True},
            "skipOn": ["ValueError"],
            "rerouteOn": ["OSError"],
        },
        "priority": 8,
        "dependsOn": [],
        "target": {
            "stack": ["node"], "capabilities": ["gpu"], "region": ["eu"], "mode": "all",
        },
        "metadata": {"tenant": 7},
        "createdAt": harness.clock.now_ms(),
        "attempts": 0,
    }  # fmt: skip


async def test_the_status_goes_through_every_documented_value(harness: Harness) -> None:
    """B-11"""
    seen: list[str | None] = []
    retry = Retry(attempts=2, backoff=BackoffRule(type="fixed", delay=1))
    id = await harness.add(schedule=Schedule(delay=1), retry=retry)
    source = harness.source()
    seen.append(await harness.queue.state(id))
    await harness.clock.advance(1)
    await (await harness.upkeep()).promote_due()
    seen.append(await harness.queue.state(id))
    (claim,) = await harness.claim(source)
    seen.append(await harness.queue.state(id))
    await harness.settle(source, claim, Failed(RuntimeError("once")))
    seen.append(await harness.queue.state(id))
    await harness.clock.advance(1)
    await harness.fail(source)
    seen.append(await harness.queue.state(id))
    done = await harness.add()
    await harness.settle(source, (await harness.claim(source))[0])
    seen.append(await harness.queue.state(done))
    seen.append(await harness.queue.state(await harness.add(schedule=Schedule(cron="0 0 * * *"))))
    stopped = await harness.add()
    await harness.queue.cancel(stopped)
    seen.append(await harness.queue.state(stopped))

    first, second = ["delayed", "waiting", "active"], ["delayed", "dead"]
    assert seen == [*first, *second, "completed", "cron", "failed"]


async def test_a_result_is_kept_for_a_day_in_the_documented_form(harness: Harness) -> None:
    """B-12 B-13 B-64"""
    id = await harness.add()
    source = harness.source()
    (claim,) = await harness.claim(source)
    await harness.settle(source, claim, Done({"sent": 1}))

    result = json.loads(await harness.text(f"bridge:jobs:result:{id}") or "")

    assert 86_000 < await harness.redis.ttl(f"bridge:jobs:result:{id}") <= 86_400
    assert result == {
        "success": True,
        "data": {"sent": 1},
        "completedAt": harness.clock.now_ms(),
        "processingTime": 0,
    }


async def test_a_failed_result_tells_the_error(harness: Harness) -> None:
    """B-13"""
    id = await harness.add(retry=Retry(attempts=1))
    await harness.fail(harness.source(), ValueError("no such address"))

    result = await harness.queue.result(id)

    assert result is not None
    assert result.error is not None
    assert not result.success
    assert (result.error.name, result.error.message) == ("ValueError", "no such address")
    assert "ValueError: no such address" in result.error.stack


async def test_a_lock_names_its_worker_and_lives_as_long_as_the_lease(harness: Harness) -> None:
    """B-14 B-64"""
    id = await harness.add()
    await harness.claim(harness.source("worker-1"))

    assert await harness.text(f"bridge:jobs:lock:{id}") == "worker-1"
    assert 15_000 < await harness.redis.pttl(f"bridge:jobs:lock:{id}") <= 30_000


async def test_a_lock_is_renewed_while_the_job_runs(harness: Harness) -> None:
    """B-15 F-B20"""
    id = await harness.add()
    source = harness.source()
    claims = await harness.claim(source)
    await harness.redis.pexpire(f"bridge:jobs:lock:{id}", 1_000)
    await harness.clock.advance(20)

    async with source.keeper() as extend:
        assert list(await extend(claims)) == []

    assert await harness.redis.pttl(f"bridge:jobs:lock:{id}") > 15_000
    await harness.clock.advance(20)
    assert await (await harness.upkeep()).recover() == []


async def test_progress_is_kept_in_the_documented_form(harness: Harness) -> None:
    """B-16 B-57"""
    id = await harness.add()
    (claim,) = await harness.claim(harness.source())

    await claim.work.update_progress(75, "step 3 of 4", {"file": "x"})

    assert json.loads(await harness.text(f"bridge:jobs:progress:{id}") or "") == {
        "percent": 75,
        "message": "step 3 of 4",
        "data": {"file": "x"},
        "updatedAt": harness.clock.now_ms(),
    }
    progress = await harness.queue.progress(id)
    assert progress is not None
    assert progress.percent == 75


async def test_progress_that_could_not_be_read_is_refused(harness: Harness) -> None:
    id = await harness.add()
    (claim,) = await harness.claim(harness.source())
    update: Any = claim.work.update_progress
    for wrong, sentence in {
        (101,): "percent must be 0 to 100, got 101",
        ("50",): "percent must be 0 to 100, got '50'",
        (50, 3): "message must be text, got 3",
    }.items():
        with pytest.raises(InvalidOption, match=sentence):
            await update(*wrong)
    assert await harness.queue.progress(id) is None


async def test_progress_of_a_job_somebody_else_holds_is_refused(harness: Harness) -> None:
    """F-B7"""
    await harness.add()
    (stale,) = await harness.claim(harness.source())
    await harness.lapse()
    await harness.claim(harness.source())

    with pytest.raises(LeaseLost):
        await stale.work.update_progress(10)


async def test_status_progress_and_result_end_together(harness: Harness) -> None:
    """F-B10"""
    id = await harness.add()
    source = harness.source()
    (claim,) = await harness.claim(source)
    await claim.work.update_progress(50)
    await harness.settle(source, claim)

    ttls = [
        await harness.redis.ttl(f"bridge:jobs:{what}:{id}")
        for what in ("status", "progress", "result")
    ]
    assert all(86_000 < ttl <= 86_400 for ttl in ttls)


async def test_numbers_past_2_53_and_empty_lists_survive_every_step(harness: Harness) -> None:
    """F-B21"""
    payload: Any = {"big": 2**53 + 1, "huge": 10**30, "none": [], "nothing": {}}
    retry = Retry(attempts=3, backoff=BackoffRule(delay=0))
    await harness.add("sum", payload, retry=retry, schedule=Schedule(delay=0.001))
    await harness.clock.advance(1)
    source = harness.source()
    await harness.fail(source)
    await harness.lapse()

    (claim,) = await harness.claim(source)

    assert json.loads(claim.work.raw)["payload"] == payload
    assert claim.work.data["big"] == 2**53 + 1
    assert claim.work.attempts == 1


def test_what_a_foreign_producer_wrote_besides_stays_byte_for_byte() -> None:
    raw = b'{"jobId":"1","type":"t","x":{"n":9007199254740993,"e":[]},"attempts":0}'

    assert rewritten(raw, attempts=1) == raw.replace(b'"attempts":0', b'"attempts":1')


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: JobOptions(priority=0), "priority must be 1 to 10, got 0"),
        (lambda: JobOptions(priority=11), "priority must be 1 to 10, got 11"),
        (lambda: JobOptions(depends_on="job-1"), "depends_on must be a list"),  # pyright: ignore
        (lambda: JobOptions(job_id="a b"), "job_id must be text without spaces"),
        (lambda: Retry(attempts=0), "attempts must be 1"),
        (lambda: Retry(attempts=2**53), "attempts must be 1"),
        (lambda: BackoffRule(delay=-1), "backoff delay must be a timedelta or seconds, at least 0"),
        (lambda: Target(mode="some"), "mode must be one of any, all, got 'some'"),  # pyright: ignore
        (lambda: Target(server=""), "server must be a name"),
        (lambda: Target(stack=("",)), "stack must be names"),
        (
            lambda: Schedule(delay=1, run_at=datetime.now(UTC)),
            "takes one of delay, run_at and cron",
        ),
        (lambda: Schedule(delay=2**53), "delay must be at most"),
        (lambda: Schedule(cron="x"), 'Invalid cron expression "x": '),
        (lambda: Schedule(cron="61 * * * *"), 'Invalid cron expression "61 . . . .": Bad minute'),
        (lambda: Schedule(cron="* * * * *", timezone="Mars/Olympus"), "timezone must be a name"),
        (lambda: Schedule(overlap="never"), "overlap must be"),  # pyright: ignore
    ],
)
def test_a_bad_option_is_refused_before_anything_is_written(make: object, sentence: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidOption, match=sentence):
        make()


async def test_a_bad_type_or_payload_is_refused_before_anything_is_written(
    harness: Harness,
) -> None:
    with pytest.raises(InvalidOption, match="type must be text"):
        await harness.add("")
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        await harness.add("email", object())
    small = Queue(harness.store, payload_limit=1_000)
    with pytest.raises(PayloadTooLarge, match="exceeds limit"):
        await small.add("email", "x" * 2_000)
    assert await harness.redis.dbsize() == 0


async def test_a_job_that_nobody_holds_has_no_progress_to_tell() -> None:
    with pytest.raises(WrongState):
        await Job("1", b'{"jobId":"1","type":"t"}').update_progress(1)
