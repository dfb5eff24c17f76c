"""Bounds of what a handler may ask for: sizes, durations, and the stream of events."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq import Job, Parent, Queue
from waystation.core import codec
from waystation.errors import (
    InvalidOption,
    JobDelayed,
    PayloadTooLarge,
    WaystationError,
)

Call: TypeAlias = Callable[[Job, Queue], Awaitable[Any]]

LARGE = "x" * codec.PAYLOAD_LIMIT
LARGE_CALLS: dict[str, Call] = {
    "signal": lambda job, queue: queue.signal(job.id, "go", LARGE),
    "emit": lambda job, queue: job.emit(LARGE),
    "update_data": lambda job, queue: job.update_data(LARGE),
    "update_progress": lambda job, queue: job.update_progress(LARGE),
    "log": lambda job, queue: job.log(LARGE + "x"),
    "step": lambda job, queue: job.step("large", lambda: LARGE),
    "run_child": lambda job, queue: job.run_child("large", LARGE),
}


@pytest.mark.parametrize("call", LARGE_CALLS)
async def test_nothing_too_large_is_stored_whichever_way_it_comes(
    call: str, harness: Harness, queue: Queue
) -> None:
    await queue.add("order")
    job = (await harness.claim_one()).work
    before = await harness.everything()
    with pytest.raises(WaystationError, match=r"10\.0 MB") as refused:
        await LARGE_CALLS[call](job, queue)
    assert isinstance(refused.value, PayloadTooLarge) or call == "step"
    assert await harness.everything() == before


BAD_WAITS: dict[str, Callable[[Job], Awaitable[Any]]] = {
    "nothing": lambda job: job.sleep(),
    "for ever": lambda job: job.sleep(1e300),
    "too long": lambda job: job.sleep(days=20 * 365),
    "more than there is": lambda job: job.sleep(days=1e300),
    "until too late": lambda job: job.sleep_until(datetime(2040, 1, 1, tzinfo=UTC)),
    "until a number": lambda job: job.sleep_until(cast(Any, 5)),
    "a long wait": lambda job: job.wait_for("go", timeout=1e300),
    "a wait of years": lambda job: job.wait_for("go", timeout=timedelta(days=20 * 365)),
}


@pytest.mark.parametrize("wait", BAD_WAITS)
async def test_a_time_that_never_comes_is_refused(
    wait: str, harness: Harness, queue: Queue
) -> None:
    await queue.add("order")
    job = (await harness.claim_one()).work
    before = await harness.everything()
    with pytest.raises(InvalidOption):
        await BAD_WAITS[wait](job)
    assert await harness.everything() == before


async def test_a_signal_wakes_a_job_whose_delay_somebody_has_changed(
    harness: Harness, queue: Queue
) -> None:
    added = await queue.add("order")
    with pytest.raises(JobDelayed):
        await (await harness.claim_one()).work.wait_for("go")
    await added.change_delay(3600)
    assert await queue.signal(added.id, "go", "now")
    assert await harness.where(added.id) == ["wait"]
    assert await (await harness.claim_one()).work.wait_for("go") == "now"


async def test_jobs_that_wait_for_children_keep_the_stream_within_its_cap(
    harness: Harness, queue: Queue
) -> None:
    job = (await queue.add("order"), await harness.claim_one())[1].work
    await queue.add("kid", parent=Parent(job.id, harness.keys.qualified))
    await harness.call("HSET", harness.keys.meta, "opts.maxLenEvents", 5)
    for _ in range(500):
        await harness.call("XADD", harness.keys.events, "*", "event", "other")
    assert await job.move_to_waiting_children()
    assert await harness.call("XLEN", harness.keys.events) < 500
