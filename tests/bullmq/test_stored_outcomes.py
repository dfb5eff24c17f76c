"""A worker's listeners are called with what was stored, and nothing else."""

import asyncio
import math
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.bullmq.harness import Harness
from tests.support.lossy import make_lossy
from tests.support.patience import LIMIT_S
from waystation.bullmq import Backoff, Job, JobRateLimited, Parent, Queue, Worker
from waystation.core.errors import StoreUnreachable
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.claim import Settled
from waystation.core.runtime.metered import Metered
from waystation.core.telemetry.metrics import Metrics


class Recorder:
    """Records the calls of listeners, and the job as it was then."""

    def __init__(self, worker: Worker, *events: str) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        for event in events:
            worker.on(event, self._listener(event))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def _listener(self, event: str) -> Any:
        def listener(job: Job, *_: Any) -> None:
            seen = {
                "attempts_made": job.attempts_made,
                "failed_reason": job.failed_reason,
                "return_value": job.result,
                "finished": job.finished_ms,
            }
            self.calls.append((event, seen))

        return listener

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.calls]

    async def until(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.calls) < count:
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("result", [math.nan, object()], ids=["nan", "object"])
async def test_a_result_that_cannot_be_written_is_heard_as_failed(
    redis_url: str, result: Any
) -> None:
    runs = 0

    async def handle(job: Job) -> Any:
        nonlocal runs
        runs += 1
        return result

    worker = Worker("mail", handle, redis_url)
    recorder = Recorder(worker, "completed", "failed")
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("x", attempts=3)
        await recorder.until(1)
        assert await queue.counts("completed", "failed") == {"completed": 0, "failed": 1}

    assert recorder.events == ["failed"]
    assert runs == 1


async def test_metrics_count_a_result_that_cannot_be_written_as_a_failure(redis_url: str) -> None:
    async def handle(job: Job) -> Any:
        return object()

    metrics = Metrics()
    meter = Metered(metrics, product="bullmq", queue="mail")
    worker = Worker("mail", handle, redis_url, listener=meter)
    recorder = Recorder(worker, "completed", "failed")
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("x", attempts=1)
        await recorder.until(1)

    page = generate_latest(metrics.registry).decode()
    assert 'jobs_completed_total{queue="mail"} 0.0' in page
    assert 'jobs_failed_total{queue="mail",reason="INVALID_RESULT"} 1.0' in page


async def test_the_job_that_failed_carries_what_was_stored(redis_url: str) -> None:
    async def handle(job: Job) -> None:
        raise RuntimeError(f"no {job.attempts_made}")

    worker = Worker("mail", handle, redis_url)
    recorder = Recorder(worker, "failed")
    async with Queue("mail", redis_url) as queue, worker:
        job = await queue.add("x", attempts=2)
        await recorder.until(2)
        await job.refresh()

    first, last = (seen for _, seen in recorder.calls)
    assert (first["attempts_made"], last["attempts_made"]) == (1, 2)
    assert "no 0" in first["failed_reason"]
    assert "no 1" in last["failed_reason"]
    assert last["failed_reason"] == job.failed_reason
    assert first["finished"] is None
    assert last["finished"] == job.finished_ms is not None


async def test_the_job_that_completed_carries_what_was_stored(redis_url: str) -> None:
    async def handle(job: Job) -> dict[str, int]:
        return {"sent": 1}

    worker = Worker("mail", handle, redis_url)
    recorder = Recorder(worker, "completed")
    async with Queue("mail", redis_url) as queue, worker:
        job = await queue.add("x")
        await recorder.until(1)
        await job.refresh()

    ((_, seen),) = recorder.calls
    assert seen["attempts_made"] == 1
    assert seen["return_value"] == {"sent": 1}
    assert seen["finished"] == job.finished_ms is not None


async def test_a_job_put_back_by_a_rate_limit_is_heard_neither_as_failed_nor_completed(
    redis_url: str,
) -> None:
    turns = iter((True, False))

    async def handle(job: Job) -> str:
        if next(turns):
            raise JobRateLimited
        return "ok"

    worker = Worker("mail", handle, redis_url)
    recorder = Recorder(worker, "completed", "failed")
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("x", attempts=1)
        await recorder.until(1)

    assert recorder.events == ["completed"]


async def test_an_outcome_that_was_refused_is_heard_as_refused_only(harness: Harness) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> str:
        begun.set()
        await go_on.wait()
        return "late"

    worker = Worker("mail", handle, harness.store)
    recorder = Recorder(worker, "completed", "failed", "refused")
    async with worker:
        id = await harness.add()
        await begun.wait()
        worker.pause()
        await harness.redis.set(harness.keys.of(id).lock, "another worker")
        go_on.set()
        await recorder.until(1)
        await asyncio.sleep(0.05)

    assert recorder.events == ["refused"]


async def test_a_parent_that_its_children_hold_up_is_heard_as_failed(
    harness: Harness, redis_url: str
) -> None:
    async with Queue("mail", redis_url) as queue:

        async def handle(job: Job) -> str:
            await queue.add("late", parent=Parent(job.id, "bull:mail"))
            worker.pause()
            return "too early"

        worker = Worker("mail", handle, redis_url)
        recorder = Recorder(worker, "completed", "failed", "refused")
        async with worker:
            await harness.add(attempts=1)
            await recorder.until(1)
            assert await queue.counts("failed") == {"failed": 1}

    assert recorder.events == ["failed"]
    assert "pending dependencies" in recorder.calls[0][1]["failed_reason"]


@pytest.mark.parametrize(
    "outcome", [Done("ok"), Failed(RuntimeError("no"))], ids=["done", "failed"]
)
async def test_an_outcome_of_a_job_that_is_not_kept_is_found_in_the_events(
    harness: Harness, outcome: Outcome
) -> None:
    worker = harness.source(worker="ours", remove_on_complete=True, remove_on_fail=True)
    id = await harness.add(attempts=1)
    (claim,) = (await worker.settle([], claim=1)).claims
    make_lossy(worker).lose_next()
    with pytest.raises(StoreUnreachable):
        await worker.settle([Settled(claim, outcome)], claim=0)
    assert not await harness.hash(id)

    reply = await worker.settle([Settled(claim, outcome)], claim=0)

    assert not reply.refused
    assert [each.claim for each in reply.settled] == [claim]
    assert claim.work.attempts_made == 1
    assert claim.work.finished_ms


async def test_a_job_that_another_worker_has_ended_is_refused_although_it_is_not_kept(
    harness: Harness,
) -> None:
    slow = harness.source(worker="slow")
    quick = harness.source(worker="quick", remove_on_complete=True)
    await harness.add()
    (stale,) = (await slow.settle([], claim=1)).claims
    make_lossy(slow).miss_next()
    with pytest.raises(StoreUnreachable):
        await slow.settle([Settled(stale, Done("late"))], claim=0)
    await harness.lapse()
    (fresh,) = (await quick.settle([], claim=1)).claims
    assert not (await quick.settle([Settled(fresh, Done("ok"))], claim=0)).refused

    reply = await slow.settle([Settled(stale, Done("late"))], claim=0)

    assert [each.claim for each in reply.refused] == [stale]
    assert not reply.settled


async def test_a_parent_that_failed_for_its_children_is_no_refusal_when_the_answer_was_lost(
    harness: Harness, redis_url: str
) -> None:
    async with Queue("mail", redis_url) as queue:
        first = await harness.add(attempts=1)
        claim = await harness.claim_one()
        await queue.add("late", parent=Parent(first, "bull:mail"))
        lossy = make_lossy(harness.worker)
        for after in (0, 1):
            lossy.lose_next(after=after)
            with pytest.raises(StoreUnreachable):
                await harness.worker.settle([Settled(claim, Done())], claim=0)

        reply = await harness.worker.settle([Settled(claim, Done())], claim=0)

    assert not reply.refused
    (stored,) = reply.settled
    assert isinstance(stored.outcome, Failed)
    assert await harness.where(first) == ["failed"]


async def test_a_result_above_the_limit_fails_its_job_for_good(harness: Harness) -> None:
    worker = harness.source(result_limit=100)
    id = await harness.add(attempts=3)
    (claim,) = (await worker.settle([], claim=1)).claims

    reply = await worker.settle([Settled(claim, Done("x" * 99))], claim=0)

    assert "exceed the limit" in str(claim.work.failed_reason)
    assert isinstance(reply.settled[0].outcome, Failed)
    assert await harness.where(id) == ["failed"]


async def test_of_a_long_reason_and_traceback_the_beginning_is_kept(harness: Harness) -> None:
    id = await harness.add(attempts=1)
    await harness.fail(await harness.claim_one(), "x" * 20 * 2**20)

    stored = await harness.hash(id)

    assert stored["failedReason"].startswith("xxx")
    assert stored["failedReason"].endswith("(20,961,520 more characters)")
    assert len(stored["failedReason"]) < 11_000
    assert len(stored["stacktrace"]) < 60_000


async def test_a_backoff_strategy_that_ends_the_process_ends_its_job_only(redis_url: str) -> None:
    def strategy(*_: Any) -> int:
        raise SystemExit("no")

    async def handle(job: Job) -> None:
        raise RuntimeError("no")

    worker = Worker("mail", handle, redis_url, backoff_strategy=strategy)
    async with Queue("mail", redis_url) as queue, worker:
        for _ in range(2):
            await queue.add("x", attempts=3, backoff=Backoff("own", 0.001))
        async with asyncio.timeout(LIMIT_S):
            while (await queue.counts("failed"))["failed"] < 2:
                await asyncio.sleep(0.005)
        assert worker.is_running
