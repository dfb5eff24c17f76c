"""What a worker's listeners hear: what was stored, and nothing else."""

import asyncio
import math
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.support.patience import LIMIT_S
from waystation.core.runtime.metered import Metered
from waystation.core.telemetry.metrics import Metrics
from waystation.queues.bullmq import Job, Parent, Queue, RateLimitError, Worker

from .hands import Hands


class Heard:
    """Remembers what listeners were told, and the job as it was then."""

    def __init__(self, worker: Worker, *events: str) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        for event in events:
            worker.on(event, self._listener(event))  # pyright: ignore[reportArgumentType]

    def _listener(self, event: str) -> Any:
        def heard(job: Job, *_: Any) -> None:
            seen = {
                "attempts_made": job.attempts_made,
                "failed_reason": job.failed_reason,
                "return_value": job.return_value,
                "finished": job.finished_on,
            }
            self.told.append((event, seen))

        return heard

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.told]

    async def until(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.told) < count:
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
    heard = Heard(worker, "completed", "failed")
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("x", attempts=3)
        await heard.until(1)
        assert await queue.counts("completed", "failed") == {"completed": 0, "failed": 1}

    assert heard.events == ["failed"]
    assert runs == 1


async def test_metrics_count_a_result_that_cannot_be_written_as_a_failure(redis_url: str) -> None:
    async def handle(job: Job) -> Any:
        return object()

    metrics = Metrics()
    meter = Metered(metrics, line="bullmq", queue="mail")
    worker = Worker("mail", handle, redis_url, listener=meter)
    heard = Heard(worker, "completed", "failed")
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("x", attempts=1)
        await heard.until(1)

    page = generate_latest(metrics.registry).decode()
    assert 'jobs_completed_total{queue="mail"} 0.0' in page
    assert 'jobs_failed_total{queue="mail",reason="INVALID_RESULT"} 1.0' in page


async def test_the_job_that_failed_carries_what_was_stored(redis_url: str) -> None:
    async def handle(job: Job) -> None:
        raise RuntimeError(f"no {job.attempts_made}")

    worker = Worker("mail", handle, redis_url)
    heard = Heard(worker, "failed")
    async with Queue("mail", redis_url) as queue, worker:
        job = await queue.add("x", attempts=2)
        await heard.until(2)
        await job.refresh()

    first, last = (seen for _, seen in heard.told)
    assert (first["attempts_made"], last["attempts_made"]) == (1, 2)
    assert "no 0" in first["failed_reason"]
    assert "no 1" in last["failed_reason"]
    assert last["failed_reason"] == job.failed_reason
    assert first["finished"] is None
    assert last["finished"] == job.finished_on is not None


async def test_the_job_that_completed_carries_what_was_stored(redis_url: str) -> None:
    async def handle(job: Job) -> dict[str, int]:
        return {"sent": 1}

    worker = Worker("mail", handle, redis_url)
    heard = Heard(worker, "completed")
    async with Queue("mail", redis_url) as queue, worker:
        job = await queue.add("x")
        await heard.until(1)
        await job.refresh()

    ((_, seen),) = heard.told
    assert seen["attempts_made"] == 1
    assert seen["return_value"] == {"sent": 1}
    assert seen["finished"] == job.finished_on is not None


async def test_a_job_put_back_by_a_rate_limit_is_heard_neither_as_failed_nor_completed(
    redis_url: str,
) -> None:
    turns = iter((True, False))

    async def handle(job: Job) -> str:
        if next(turns):
            raise RateLimitError
        return "ok"

    worker = Worker("mail", handle, redis_url)
    heard = Heard(worker, "completed", "failed")
    async with Queue("mail", redis_url) as queue, worker:
        await queue.add("x", attempts=1)
        await heard.until(1)

    assert heard.events == ["completed"]


async def test_an_outcome_that_was_refused_is_heard_as_refused_only(hands: Hands) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> str:
        begun.set()
        await go_on.wait()
        return "late"

    worker = Worker("mail", handle, hands.store)
    heard = Heard(worker, "completed", "failed", "refused")
    async with worker:
        id = await hands.add()
        await begun.wait()
        worker.pause()
        await hands.redis.set(hands.keys.of(id).lock, "another worker")
        go_on.set()
        await heard.until(1)
        await asyncio.sleep(0.05)

    assert heard.events == ["refused"]


async def test_a_parent_that_its_children_hold_up_is_heard_as_failed(
    hands: Hands, redis_url: str
) -> None:
    async with Queue("mail", redis_url) as queue:

        async def handle(job: Job) -> str:
            await queue.add("late", parent=Parent(job.id, "bull:mail"))
            worker.pause()
            return "too early"

        worker = Worker("mail", handle, redis_url)
        heard = Heard(worker, "completed", "failed", "refused")
        async with worker:
            await hands.add(attempts=1)
            await heard.until(1)
            assert await queue.counts("failed") == {"failed": 1}

    assert heard.events == ["failed"]
    assert "pending dependencies" in heard.told[0][1]["failed_reason"]
