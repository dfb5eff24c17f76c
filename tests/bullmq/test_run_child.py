"""Children that a handler runs: each is its parent's own, whatever else has its id."""

import asyncio
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import Deduplication, Job, Parent, Queue
from waystation.errors import InvalidOption, JobDelayed, JobWaitingForChildren, WrongState

KID = "order-7~kid"


async def begun(harness: Harness, queue: Queue) -> Job:
    if await queue.state("order-7") == "unknown":
        await queue.add("order", job_id="order-7", lifo=True)
    return (await harness.claim_one()).work


async def test_a_job_that_only_has_the_id_of_a_child_is_taken_for_none(
    harness: Harness, queue: Queue
) -> None:
    await queue.add("other", "data of its own", job_id=KID)
    other = await harness.claim_one()
    for ends in (True, False):
        job = await begun(harness, queue)
        with pytest.raises(WrongState, match=f"{KID} .* is no child of job order-7"):
            await job.run_child("kid", 1)
        await job.move_to_wait()
        if ends:
            await harness.complete(other, "not yours")
    assert "parentKey" not in await harness.hash(KID)


@pytest.mark.parametrize("state", ["wait", "delayed", "active"])
async def test_an_open_child_of_an_earlier_job_of_the_same_id_is_taken_for_none(
    state: str, harness: Harness, queue: Queue
) -> None:
    job = await begun(harness, queue)
    with pytest.raises(JobWaitingForChildren):
        await job.run_child("kid", "old", delay=3600 if state == "delayed" else 0)
    old = await harness.claim_one() if state == "active" else None
    assert await queue.remove("order-7", remove_children=False)

    job = await begun(harness, queue)
    if old is not None:
        # Its effects are under way, so the new one waits until they are over.
        with pytest.raises(JobDelayed):
            await job.run_child("kid", "new")
        await harness.complete(old, "old")
        again = await queue.get_job("order-7")
        assert again is not None
        await again.promote()
        job = (await harness.claim_one()).work
    with pytest.raises(JobWaitingForChildren):
        await job.run_child("kid", "new")
    kid = await harness.claim_one()
    assert (kid.id, kid.work.data) == (KID, "new")
    await harness.complete(kid, "result of the new")
    assert await (await harness.claim_one()).work.run_child("kid") == "result of the new"


@pytest.mark.parametrize(
    "given",
    [
        {"job_id": "mine"},
        {"parent": Parent("1", "bull:mail")},
        {"deduplication": Deduplication("once")},
        {"unique_for": 60},
        {"fail_parent_on_failure": True},
        {"continue_parent_on_failure": True},
        {"remove_dependency_on_failure": True},
    ],
    ids=lambda given: next(iter(given)),
)
async def test_what_a_child_cannot_have_is_refused(
    given: dict[str, Any], harness: Harness, queue: Queue
) -> None:
    job = await begun(harness, queue)
    before = await harness.everything()
    with pytest.raises(InvalidOption, match=next(iter(given))):
        await asyncio.wait_for(job.run_child("kid", **given), LIMIT_S)
    assert await harness.everything() == before
