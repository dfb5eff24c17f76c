"""The protocol contracts about how jobs end, each as the behaviour it asks for.

Where a decision overrides the letter, the decided behaviour is tested and the docstring says so.
"""

import json
from typing import Any

import pytest

from tests.bullmq.hands import Hands
from waystation.bullmq import Backoff, upkeep
from waystation.bullmq.redis import scripts
from waystation.core import codec
from waystation.core.errors import LeaseLost, Unrecoverable
from waystation.core.outcome import Failed
from waystation.core.store.script import LuaScript

# --- completion ----------------------------------------------------------------------------------


async def test_a_completed_job_is_filed_with_its_result(hands: Hands) -> None:
    """P-27, P-28, P-31, P-48, D-38: out of active, no lock, by the instant it was completed."""
    id = await hands.add()
    claim = await hands.claim_one()
    await hands.clock.advance(5)
    assert await hands.complete(claim, {"videoUrl": "https://example.com"}) is None

    now = hands.clock.now_ms()
    stored = await hands.hash(id)
    assert await hands.where(id) == ["completed"]
    assert await hands.redis.zscore(hands.keys.completed, id) == now
    assert (stored["returnvalue"], stored["finishedOn"], stored["atm"]) == (
        '{"videoUrl":"https://example.com"}',
        str(now),
        "1",
    )
    assert await hands.redis.exists(hands.keys.of(id).lock) == 0


async def test_a_completion_is_told_with_its_result(hands: Hands) -> None:
    """P-29, D-35, D-37, F-P10: always JSON, because anything else ends every Node listener."""
    id = await hands.add()
    await hands.complete(await hands.claim_one())
    assert (await hands.events("completed")) == [
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
    hands: Hands, keep: bool | int, left: int, end: str
) -> None:
    """P-30, D-25, D-26, D-27, D-46, F-P6: and what is kept has no TTL."""
    options: dict[str, Any] = {
        "remove_on_complete" if end == "completed" else "remove_on_fail": keep
    }
    ids = [await hands.add(attempts=1, **options) for _ in range(5)]
    for _ in ids:
        await hands.clock.advance(0.001)
        claim = await hands.claim_one()
        await (hands.complete(claim) if end == "completed" else hands.fail(claim))
    assert await hands.ids(end) == ids[5 - left :]
    assert [id for id in ids if await hands.hash(id)] == ids[5 - left :]
    assert all([await hands.redis.ttl(hands.keys.of(id).job) == -1 for id in ids[5 - left :]])


# --- failure -------------------------------------------------------------------------------------


async def test_a_failed_job_is_filed_with_its_reason(hands: Hands) -> None:
    """P-32, P-33, P-49, D-35: by decision the traceback is in the hash, not in the event."""
    id = await hands.add(attempts=1)
    await hands.fail(await hands.claim_one(), "no such address")
    stored = await hands.hash(id)
    assert await hands.where(id) == ["failed"]
    assert await hands.redis.zscore(hands.keys.failed, id) == hands.clock.now_ms()
    assert stored["failedReason"] == "no such address"
    assert "no such address" in json.loads(stored["stacktrace"])[0]
    assert stored["finishedOn"] == str(hands.clock.now_ms())
    assert await hands.redis.exists(hands.keys.of(id).lock) == 0
    (event,) = await hands.events("failed")
    assert event == {
        "event": "failed",
        "jobId": id,
        "failedReason": "no such address",
        "prev": "active",
        "attemptsMade": "1",
    }


async def test_a_job_goes_round_until_its_attempts_are_used_up(hands: Hands) -> None:
    """P-34, P-35, P-37, D-10, F-D5, F-P3: the last failure is final."""
    id = await hands.add(attempts=3, backoff=None)
    for _ in range(2):
        await hands.fail(await hands.claim_one())
        assert await hands.where(id) == ["wait"]
    await hands.fail(await hands.claim_one())
    assert await hands.where(id) == ["failed"]
    assert (await hands.hash(id))["atm"] == "3"
    assert len(await hands.events("retries-exhausted")) == 1


async def test_an_error_that_no_attempt_can_mend_is_final_at_once(hands: Hands) -> None:
    """P-37."""
    id = await hands.add(attempts=5)
    await hands.end(await hands.claim_one(), Failed(Unrecoverable("there is no such address")))
    assert await hands.where(id) == ["failed"]
    assert (await hands.hash(id))["failedReason"] == "there is no such address"


async def test_a_retry_waits_its_pause_and_is_told(hands: Hands) -> None:
    """P-36, P-50, D-35: BullMQ's `delayed` with the due time, and our `retry` with the pause."""
    id = await hands.add(attempts=3, backoff=Backoff.fixed(5))
    await hands.fail(await hands.claim_one(), "busy")
    due = hands.clock.now_ms() + 5000
    assert await hands.where(id) == ["delayed"]
    assert await hands.redis.exists(hands.keys.of(id).lock) == 0
    assert (await hands.events())[-2:] == [
        {"event": "delayed", "jobId": id, "delay": str(due)},
        {
            "event": "retry",
            "jobId": id,
            "delay": "5000",
            "attemptsMade": "1",
            "failedReason": "busy",
        },
    ]


async def test_a_retry_without_a_pause_goes_to_the_end_of_the_line(hands: Hands) -> None:
    """P-36: by decision to the back, as in BullMQ."""
    first, second = [await hands.add(attempts=2, backoff=None) for _ in range(2)]
    await hands.fail(await hands.claim_one())
    assert [claim.id for claim in await hands.claim(2)] == [second, first]


# --- stalled jobs --------------------------------------------------------------------------------


async def test_a_job_without_a_lock_goes_back_to_the_head_of_the_line(hands: Hands) -> None:
    """P-38, P-39, P-51, D-40, D-47: by decision at the second look, counted as `stc` only."""
    id = await hands.add(priority=3)
    await hands.claim()
    await hands.redis.delete(hands.keys.of(id).lock)
    assert await hands.check_stalled() == []
    await hands.redis.delete(hands.keys.stalled_check)
    assert await hands.check_stalled() == [id]

    assert await hands.where(id) == ["wait"]
    stored = await hands.hash(id)
    assert stored["stc"] == "1"
    assert "atm" not in stored
    assert (await hands.events())[-2:] == [
        {"event": "waiting", "jobId": id, "prev": "active"},
        {"event": "stalled", "jobId": id},
    ]


async def test_a_job_with_a_lock_is_left_alone(hands: Hands) -> None:
    """P-40."""
    id = await hands.add()
    await hands.claim()
    for _ in range(3):
        await hands.redis.delete(hands.keys.stalled_check)
        assert await hands.check_stalled() == []
    assert await hands.where(id) == ["active"]


async def test_recovered_jobs_are_logged_with_their_number(
    hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """P-41: every 30 s unless told otherwise."""
    assert upkeep.STALLED_INTERVAL_MS == 30_000
    await hands.add()
    claim = await hands.claim_one()
    await hands.redis.delete(hands.keys.of(claim.id).lock)
    caplog.set_level("INFO")
    for _ in range(3):
        await hands.redis.delete(hands.keys.stalled_check)
        await upkeep.recover_stalled(hands.store.hot, hands.keys)
    told = [record.getMessage() for record in caplog.records]
    (line,) = [each for each in told if "requeued stalled jobs" in each]
    assert "count=1" in line


# --- progress ------------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [0, 100, -1, 1500, 2.5, "half", {"done": 3}, None, True])
async def test_progress_is_kept_and_told_in_one_step(hands: Hands, progress: Any) -> None:
    """P-42, P-43, P-52, D-7, D-35: by decision as JSON in the field `data`, and any value, as in
    BullMQ."""
    await hands.add()
    job = (await hands.claim_one()).work
    await job.update_progress(progress)
    stored = (await hands.hash(job.id))["progress"]
    assert codec.decode(stored) == job.progress == progress
    assert await hands.events("progress") == [
        {"event": "progress", "jobId": job.id, "data": stored}
    ]


async def test_progress_may_come_with_a_message(hands: Hands) -> None:
    """P-44."""
    await hands.add()
    job = (await hands.claim_one()).work
    await job.update_progress(25, "Generating scene 1")
    (event,) = await hands.events("progress")
    await job.refresh()
    told = {"progress": 25, "message": "Generating scene 1"}
    assert codec.decode(event["data"]) == job.progress == told


# --- all of them ---------------------------------------------------------------------------------


def test_every_contract_is_one_script() -> None:
    """P-53, P-54: under our names, because each client sends its own scripts."""
    doors = {door.name for door in LuaScript.every if "bullmq" in door.package}
    assert {"add", "settle", "extend_locks", "recover_stalled", "update_progress"} <= doors
    kinds = ("completed", "failed", "retry", "returned")
    assert all(kind in scripts.settle.source for kind in kinds)


async def test_a_late_outcome_is_refused_by_the_script_itself(hands: Hands) -> None:
    """P-54, D-47, F-P7: the token decides, not the client, and the new holder keeps its lock."""
    id = await hands.add()
    late = await hands.claim_one()
    await hands.lapse()
    fresh = await hands.claim_one()
    for refusal in (
        await hands.complete(late),
        await hands.fail(late),
        await hands.hand_back(late),
    ):
        assert isinstance(refusal, LeaseLost)
    assert await hands.where(id) == ["active"]
    assert await hands.redis.get(hands.keys.of(id).lock) == fresh.token.encode()
