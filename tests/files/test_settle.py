"""What becomes of a file when its handler has ended."""

import json
from typing import Any

import pytest

from tests.files.harness import Harness
from waystation.core.errors import LeaseLost, TimedOut, Unrecoverable
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Reply, Settled
from waystation.files.claims import FileSource
from waystation.files.options import WorkerOptions
from waystation.files.upkeep import promote_due


async def settle(source: FileSource, outcome: Outcome) -> Reply[Any]:
    (claim,) = (await source.settle([], claim=1)).claims
    return await source.settle([Settled(claim, outcome)], claim=0)


async def test_a_completion_moves_the_bytes_to_the_completed_list(harness: Harness) -> None:
    """T-26: it is in the completed list, and no longer in the worker's."""
    id = await harness.add()
    source = harness.source(worker="w1")
    (claim,) = (await source.settle([], claim=1)).claims
    (raw,) = await harness.redis.lrange("jobqueue:worker:w1:processing", 0, -1)
    assert not (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert await harness.redis.lrange("jobqueue:completed", 0, -1) == [raw]
    assert await harness.where(id) == ["completed"]


async def test_the_completed_list_is_capped(harness: Harness) -> None:
    """F-T13: the list keeps the newest, and never more than the setting."""
    harness.set(completed_max_len=3)
    ids = [await harness.add() for _ in range(5)]
    source = harness.source()
    claims = (await source.settle([], claim=5)).claims
    await source.settle([Settled(claim, Done()) for claim in claims], claim=0)
    kept = await harness.redis.lrange(harness.keys.completed, 0, -1)
    assert [json.loads(raw)["id"] for raw in kept] == ids[:1:-1]


async def test_a_failure_waits_longer_each_time_and_ends_as_a_dead_letter(harness: Harness) -> None:
    """T-27: retries + 1, `min(base * 2^(n-1), max)`, a dead letter after max_retries.
    F-T7: the pause is spent in the store, not in the worker.
    """
    harness.set(max_retries=3, backoff=0.5, backoff_max=1.5)
    id = await harness.add()
    source, scheduled = harness.source(), "jobqueue:sched:jobqueue:low_priority"
    for retries, pause in enumerate((500, 1_000, 1_500), 1):
        await settle(source, Failed(RuntimeError("no")))
        ((raw, due),) = await harness.redis.zrange(scheduled, 0, -1, withscores=True)
        assert json.loads(raw)["retries"] == retries
        assert due - harness.clock.now_ms() == pause
        await harness.clock.advance(pause / 1000)
    await settle(source, Failed(RuntimeError("no more")))
    assert await harness.where(id) == ["failed"]
    (raw,) = await harness.redis.lrange("jobqueue:dead_letter", 0, -1)
    assert json.loads(raw)["retries"] == 4


@pytest.mark.parametrize(
    ("retries", "pause"), [(1, 500), (2, 1_000), (5, 8_000), (6, 10_000), (10_000, 10_000)]
)
def test_the_pause_doubles_up_to_its_limit(retries: int, pause: int) -> None:
    """T-27."""
    assert WorkerOptions().delay_ms(retries) == pause


async def test_a_dead_letter_has_its_reason(harness: Harness) -> None:
    """F-T13: reason, error, worker and instant, under the job's id."""
    harness.set(max_retries=0)
    id = await harness.add()
    await settle(harness.source(worker="w1"), Failed(ConnectionError("the share is gone")))
    meta = json.loads(await harness.redis.hget("jobqueue:dead_letter:meta", id))
    assert meta == {
        "reason": "INFRASTRUCTURE",
        "error": "ConnectionError: the share is gone",
        "worker": "w1",
        "queue": "jobqueue:low_priority",
        "attempt": 1,
        "at": harness.clock.now_ms(),
    }


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "gone"), "VANISHED"),
        (FileNotFoundError(2, "gone", "/inbox/a.pdf"), "VANISHED"),
        (FileNotFoundError(2, "gone", b"a.pdf"), "VANISHED"),
        (FileNotFoundError(2, "gone", object()), "VANISHED"),
        (Unrecoverable("not a picture"), "UNRECOVERABLE"),
    ],
)
async def test_what_another_try_would_not_change_ends_at_once(
    harness: Harness, error: Exception, reason: str
) -> None:
    id = await harness.add()
    await settle(harness.source(), Failed(error))
    meta = json.loads(await harness.redis.hget(harness.keys.dead_letter_meta, id))
    assert meta["reason"] == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "denied"), "UNREADABLE"),
        (PermissionError(13, "denied", "/inbox/a.pdf"), "UNREADABLE"),
        (PermissionError(13, "denied", "/out/a.txt"), "HANDLER_ERROR"),
        (FileNotFoundError(2, "no such program", "pdftotext"), "HANDLER_ERROR"),
        (FileNotFoundError(2, "moved", "/inbox/a.pdf", None, "/out/a.pdf"), "HANDLER_ERROR"),
        (IsADirectoryError(21, "a directory"), "UNREADABLE"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates"), "HANDLER_ERROR"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "UNREADABLE"),
        (TimedOut("too long"), "TIMED_OUT"),
        (OSError(5, "input/output error"), "INFRASTRUCTURE"),
        (OSError(28, "no space left"), "INFRASTRUCTURE"),
        (ValueError("odd"), "HANDLER_ERROR"),
    ],
)
async def test_what_may_pass_is_tried_again_and_its_reason_told(
    harness: Harness, error: Exception, reason: str
) -> None:
    """T-37: the reason is one of a few."""
    await harness.add()
    await settle(harness.source(), Failed(error))
    assert [e["reason"] for e in await harness.events() if e["event"] == "retry"] == [reason]


async def test_work_handed_back_is_untouched(harness: Harness) -> None:
    id = await harness.add()
    (before,) = await harness.redis.lrange("jobqueue:low_priority", 0, -1)
    await settle(harness.source(), Returned())
    assert await harness.redis.lrange("jobqueue:low_priority", 0, -1) == [before]
    assert await harness.where(id) == ["waiting"]


async def test_a_late_completion_is_refused_and_changes_nothing(harness: Harness) -> None:
    """F-T3: only what is still in the worker's list is the worker's to end."""
    id = await harness.add()
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    await harness.lapse()
    (refused,) = (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert isinstance(refused.reason, LeaseLost)
    assert await harness.where(id) == ["waiting"]
    assert await harness.redis.llen(harness.keys.completed) == 0


async def test_retries_come_due_without_a_worker_that_asks(harness: Harness) -> None:
    """F-T7."""
    harness.set(backoff=60, backoff_max=60)
    id = await harness.add()
    await settle(harness.source(), Failed(RuntimeError()))
    assert await promote_due(harness.redis, harness.keys, now_ms=harness.clock.now_ms()) == 0
    await harness.clock.advance(60)
    assert await promote_due(harness.redis, harness.keys, now_ms=harness.clock.now_ms()) == 1
    assert await harness.where(id) == ["waiting"]


async def test_every_transition_is_told_in_the_envelope(harness: Harness) -> None:
    harness.set(max_retries=1)
    id = await harness.add("/inbox/a.pdf", size=12)
    source = harness.source(worker="w1")
    await settle(source, Returned())
    await settle(source, Failed(RuntimeError()))
    await settle(source, Failed(RuntimeError()))
    events = [event for event in await harness.events() if event["subject"] == id]
    assert [event["event"] for event in events] == [
        "waiting", "active", "returned", "active", "retry", "waiting", "active", "dead",
    ]  # fmt: skip
    assert events[0] == {
        "v": "1", "line": "files", "queue": "jobqueue:low_priority", "event": "waiting",
        "at": str(harness.clock.now_ms()), "subject": id, "attempt": "1", "worker": "",
        "path": "/inbox/a.pdf", "size": "12",
    }  # fmt: skip
    assert [event["attempt"] for event in events] == ["1", "1", "1", "1", "1", "2", "2", "2"]
    assert events[-1]["worker"] == "w1"


async def test_the_stream_of_events_is_capped(harness: Harness) -> None:
    harness.set(events_max_len=100)
    for _ in range(20):
        for _ in range(30):
            await harness.add()
        source = harness.source()
        claims = (await source.settle([], claim=30)).claims
        await source.settle([Settled(claim, Done()) for claim in claims], claim=0)
    assert await harness.redis.xlen(harness.keys.events) < 400
