"""The protocol contracts about how jobs end, each as the behaviour it asks for.

Where a decision overrides the letter, the decided behaviour is tested and the docstring says so.
"""

import json
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq import Backoff, upkeep
from waystation.bullmq.redis import scripts
from waystation.core import codec
from waystation.core.errors import LeaseLost, Unrecoverable
from waystation.core.outcome import Failed
from waystation.core.store.script import LuaScript

# --- completion ----------------------------------------------------------------------------------


async def test_a_completed_job_is_filed_with_its_result(harness: Harness) -> None:
    """P-27, P-28, P-31, P-48, D-38: out of active, no lock, by the instant it was completed."""
    id = await harness.add()
    claim = await harness.claim_one()
    await harness.clock.advance(5)
    assert await harness.complete(claim, {"videoUrl": "https://example.com"}) is None

    now = harness.clock.now_ms()
    stored = await harness.hash(id)
    assert await harness.where(id) == ["completed"]
    assert await harness.redis.zscore(harness.keys.completed, id) == now
    assert (stored["returnvalue"], stored["finishedOn"], stored["atm"]) == (
        '{"videoUrl":"https://example.com"}',
        str(now),
        "1",
    )
    assert await harness.redis.exists(harness.keys.of(id).lock) == 0


async def test_a_completion_is_told_with_its_result(harness: Harness) -> None:
    """P-29, D-35, D-37, F-P10: always JSON, because anything else ends every Node listener."""
    id = await harness.add()
    await harness.complete(await harness.claim_one())
    assert (await harness.events("completed")) == [
        {
            "event": "completed",
            "jobId": id,
            "returnvalue": "null",
            "prev": "active",
            "attemptsMade": "1",
        }
    ]


@pytest.mark.parametrize(("keep", "left"), [(True, 0), (0, 0), (1, 1), (3, 3), (False, 5)])
@pytest.mark.parametrize("end", ["completed", "failed"])
async def test_finished_jobs_are_kept_as_asked(
    harness: Harness, keep: bool | int, left: int, end: str
) -> None:
    """P-30, D-25, D-26, D-27, D-46, F-P6: and what is kept has no TTL."""
    options: dict[str, Any] = {
        "remove_on_complete" if end == "completed" else "remove_on_fail": keep
    }
    ids = [await harness.add(attempts=1, **options) for _ in range(5)]
    for _ in ids:
        await harness.clock.advance(0.001)
        claim = await harness.claim_one()
        await (harness.complete(claim) if end == "completed" else harness.fail(claim))
    assert await harness.ids(end) == ids[5 - left :]
    assert [id for id in ids if await harness.hash(id)] == ids[5 - left :]
    assert all([await harness.redis.ttl(harness.keys.of(id).job) == -1 for id in ids[5 - left :]])


# --- failure -------------------------------------------------------------------------------------


async def test_a_failed_job_is_filed_with_its_reason(harness: Harness) -> None:
    """P-32, P-33, P-49, D-35: by decision the traceback is in the hash, not in the event."""
    id = await harness.add(attempts=1)
    await harness.fail(await harness.claim_one(), "no such address")
    stored = await harness.hash(id)
    assert await harness.where(id) == ["failed"]
    assert await harness.redis.zscore(harness.keys.failed, id) == harness.clock.now_ms()
    assert stored["failedReason"] == "no such address"
    assert "no such address" in json.loads(stored["stacktrace"])[0]
    assert stored["finishedOn"] == str(harness.clock.now_ms())
    assert await harness.redis.exists(harness.keys.of(id).lock) == 0
    (event,) = await harness.events("failed")
    assert event == {
        "event": "failed",
        "jobId": id,
        "failedReason": "no such address",
        "prev": "active",
        "attemptsMade": "1",
    }


async def test_a_job_goes_round_until_its_attempts_are_used_up(harness: Harness) -> None:
    """P-34, P-35, P-37, D-10, F-D5, F-P3: the last failure is final."""
    id = await harness.add(attempts=3, backoff=None)
    for _ in range(2):
        await harness.fail(await harness.claim_one())
        assert await harness.where(id) == ["wait"]
    await harness.fail(await harness.claim_one())
    assert await harness.where(id) == ["failed"]
    assert (await harness.hash(id))["atm"] == "3"
    assert len(await harness.events("retries-exhausted")) == 1


async def test_an_error_that_no_attempt_can_mend_is_final_at_once(harness: Harness) -> None:
    """P-37."""
    id = await harness.add(attempts=5)
    await harness.end(await harness.claim_one(), Failed(Unrecoverable("there is no such address")))
    assert await harness.where(id) == ["failed"]
    assert (await harness.hash(id))["failedReason"] == "there is no such address"


async def test_a_retry_waits_its_pause_and_is_told(harness: Harness) -> None:
    """P-36, P-50, D-35: BullMQ's `delayed` with the due time, and our `retry` with the pause."""
    id = await harness.add(attempts=3, backoff=Backoff.fixed(5))
    await harness.fail(await harness.claim_one(), "busy")
    due = harness.clock.now_ms() + 5000
    assert await harness.where(id) == ["delayed"]
    assert await harness.redis.exists(harness.keys.of(id).lock) == 0
    assert (await harness.events())[-2:] == [
        {"event": "delayed", "jobId": id, "delay": str(due)},
        {
            "event": "retry",
            "jobId": id,
            "delay": "5000",
            "attemptsMade": "1",
            "failedReason": "busy",
        },
    ]


async def test_a_retry_without_a_pause_goes_to_the_end_of_the_line(harness: Harness) -> None:
    """P-36: by decision to the back, as in BullMQ."""
    first, second = [await harness.add(attempts=2, backoff=None) for _ in range(2)]
    await harness.fail(await harness.claim_one())
    assert [claim.id for claim in await harness.claim(2)] == [second, first]


# --- stalled jobs --------------------------------------------------------------------------------


async def test_a_job_without_a_lock_goes_back_to_the_head_of_the_line(harness: Harness) -> None:
    """P-38, P-39, P-51, D-40, D-47: by decision at the second look, counted as `stc` only."""
    id = await harness.add(priority=3)
    await harness.claim()
    await harness.redis.delete(harness.keys.of(id).lock)
    assert await harness.check_stalled() == []
    await harness.redis.delete(harness.keys.stalled_check)
    assert await harness.check_stalled() == [id]

    assert await harness.where(id) == ["wait"]
    stored = await harness.hash(id)
    assert stored["stc"] == "1"
    assert "atm" not in stored
    assert (await harness.events())[-2:] == [
        {"event": "waiting", "jobId": id, "prev": "active"},
        {"event": "stalled", "jobId": id},
    ]


async def test_a_job_with_a_lock_is_left_alone(harness: Harness) -> None:
    """P-40."""
    id = await harness.add()
    await harness.claim()
    for _ in range(3):
        await harness.redis.delete(harness.keys.stalled_check)
        assert await harness.check_stalled() == []
    assert await harness.where(id) == ["active"]


async def test_recovered_jobs_are_logged_with_their_number(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """P-41: every 30 s by default."""
    assert upkeep.STALLED_INTERVAL_MS == 30_000
    await harness.add()
    claim = await harness.claim_one()
    await harness.redis.delete(harness.keys.of(claim.id).lock)
    caplog.set_level("INFO")
    for _ in range(3):
        await harness.redis.delete(harness.keys.stalled_check)
        await upkeep.recover_stalled(harness.store.hot, harness.keys)
    messages = [record.getMessage() for record in caplog.records]
    (line,) = [each for each in messages if "requeued stalled jobs" in each]
    assert "count=1" in line


# --- progress ------------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [0, 100, -1, 1500, 2.5, "half", {"done": 3}, None, True])
async def test_progress_is_kept_and_told_in_one_step(harness: Harness, progress: Any) -> None:
    """P-42, P-43, P-52, D-7, D-35: by decision as JSON in the field `data`, and any value, as in
    BullMQ."""
    await harness.add()
    job = (await harness.claim_one()).work
    await job.update_progress(progress)
    stored = (await harness.hash(job.id))["progress"]
    assert codec.decode(stored) == job.progress == progress
    assert await harness.events("progress") == [
        {"event": "progress", "jobId": job.id, "data": stored}
    ]


async def test_progress_may_come_with_a_message(harness: Harness) -> None:
    """P-44."""
    await harness.add()
    job = (await harness.claim_one()).work
    await job.update_progress(25, "Generating scene 1")
    (event,) = await harness.events("progress")
    await job.refresh()
    progress = {"progress": 25, "message": "Generating scene 1"}
    assert codec.decode(event["data"]) == job.progress == progress


# --- all of them ---------------------------------------------------------------------------------


def test_every_contract_is_one_script() -> None:
    """P-53, P-54: under our names, because each client sends its own scripts."""
    names = {script.name for script in LuaScript.every if "bullmq" in script.package}
    assert {"add", "settle", "extend_locks", "recover_stalled", "update_progress"} <= names
    kinds = ("completed", "failed", "retry", "returned")
    assert all(kind in scripts.settle.source for kind in kinds)


async def test_a_late_outcome_is_refused_by_the_script_itself(harness: Harness) -> None:
    """P-54, D-47, F-P7: the token decides, not the client, and the new holder keeps its lock."""
    id = await harness.add()
    late = await harness.claim_one()
    await harness.lapse()
    fresh = await harness.claim_one()
    for refusal in (
        await harness.complete(late),
        await harness.fail(late),
        await harness.hand_back(late),
    ):
        assert isinstance(refusal, LeaseLost)
    assert await harness.where(id) == ["active"]
    assert await harness.redis.get(harness.keys.of(id).lock) == fresh.token.encode()
