"""What would go wrong if the data model were taken at its word."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.bullmq.contracts import System
from tests.bullmq.harness import Harness, harness_on
from waystation.bullmq.events.stream import QueueEvents
from waystation.bullmq.options import Backoff, JobOptions
from waystation.core import codec
from waystation.core.errors import JobFailed
from waystation.core.outcome import Done


@pytest.fixture
async def system(redis_url: str) -> AsyncIterator[System]:
    async with harness_on(redis_url, "{queue}") as harness:
        yield System(harness)


@pytest.mark.parametrize("id", ["wait", "events", "1:lock"])
async def test_an_id_cannot_be_the_name_of_another_key(system: System, id: str) -> None:
    """F-D1: a job called `wait` is the line itself, and one called `1:lock` a lock."""
    before = await system.harness.everything()
    with contextlib.suppress(Exception):
        await system.add(job_id=id)
    assert await system.harness.everything() == before


async def test_an_id_cannot_be_a_number_that_the_counter_will_give(system: System) -> None:
    """F-D1: the job after it takes its hash."""
    with contextlib.suppress(Exception):
        await system.add(job_id="1")
    await system.add()
    assert len(await system.harness.ids("wait")) == len(set(await system.harness.ids("wait"))) == 1


async def test_a_job_that_succeeded_after_a_failure_counts_as_a_success(
    harness: Harness, redis_url: str
) -> None:
    """D-15, F-D6: BullMQ leaves the old reason in the hash, so the state decides, not the field."""
    id = await harness.add(attempts=2, backoff=None)
    await harness.fail(await harness.claim_one(), "the first time")
    await harness.end(await harness.claim_one(), Done("sent"))

    async with QueueEvents(harness.keys.name, redis_url) as events:
        assert await events.wait(id) == "sent"
    assert await harness.where(id) == ["completed"]
    stored = await harness.hash(id)
    assert stored["failedReason"] == "the first time"
    assert stored["returnvalue"] == '"sent"'


async def test_a_job_retried_by_hand_after_a_success_and_failed_counts_as_a_failure(
    harness: Harness, redis_url: str
) -> None:
    """F-D6, the other way round."""
    id = await harness.add(attempts=1)
    await harness.fail(await harness.claim_one(), "no")
    await harness.call("HSET", harness.keys.of(id).job, "returnvalue", '"old"')
    async with QueueEvents(harness.keys.name, redis_url) as events:
        with pytest.raises(JobFailed, match="no"):
            await events.wait(id)


async def test_failures_of_one_instant_are_not_all_tried_again_in_one_instant(
    harness: Harness,
) -> None:
    """F-D7: without jitter an outage comes back as a thundering herd."""
    for _ in range(20):
        await harness.add(backoff=Backoff.fixed(1, jitter=0.5))
    for claim in await harness.claim(20):
        await harness.fail(claim)
    flat = await harness.call("ZRANGE", harness.keys.delayed, 0, -1, "WITHSCORES")
    scores = [int(float(score)) // 4096 for score in flat[1::2]]
    now = harness.clock.now_ms()
    assert all(now + 500 <= due <= now + 1000 for due in scores)
    assert len(set(scores)) > 10


async def test_tracebacks_do_not_pile_up(harness: Harness) -> None:
    """F-D8: the newest ten are kept."""
    id = await harness.add(attempts=15, backoff=None, stack_trace_limit=10)
    for number in range(14):
        await harness.fail(await harness.claim_one(), f"failure {number}")
        traces: list[str] = codec.decode((await harness.hash(id))["stacktrace"])
        newest = range(max(0, number - 9), number + 1)
        assert [trace.split()[-1] for trace in traces] == [str(each) for each in newest]


def test_ten_tracebacks_and_a_thousand_log_lines_are_the_default() -> None:
    """F-D8."""
    assert JobOptions().stack_trace_limit == 10
    assert JobOptions().keep_logs == 1000


async def test_a_crash_is_no_attempt(system: System) -> None:
    """F-D9: counted at pickup and again at the stall, the attempts exceed their limit."""
    id = await system.add(attempts=3)
    for _ in range(2):
        if held := await system.claim():
            await system.harness.redis.delete(system.harness.keys.of(held.id).lock)
            await system.check_stalled()
    stored = await system.harness.hash(id)
    assert int(stored.get("attemptsMade", 0)) + int(stored.get("atm", 0)) <= 1


async def test_an_event_is_flat_and_its_objects_are_json(harness: Harness) -> None:
    """F-D10: a map inside a stream entry does not exist."""
    await harness.add()
    await harness.complete(
        await harness.claim_one(), {"url": "https://example.com", "seconds": [1, 2]}
    )
    (event,) = await harness.events("completed")
    assert codec.decode(event["returnvalue"]) == {"url": "https://example.com", "seconds": [1, 2]}
    assert set(event) == {"event", "jobId", "returnvalue", "prev", "attemptsMade"}
