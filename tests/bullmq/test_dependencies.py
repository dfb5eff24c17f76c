import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.bullmq.trees import child, parent, state
from tests.support.lossy import make_lossy
from tests.support.patience import LIMIT_S
from waystation.bullmq import (
    ChildKind,
    FlowNode,
    FlowProducer,
    Job,
    JobWaitingForChildren,
    Parent,
    Queue,
    Worker,
)
from waystation.core.errors import LeaseLost, NotFound, StoreUnreachable
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Claim, Settled

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def test_a_flow_is_read_back_with_children_of_every_kind(
    harness: Harness, flows: FlowProducer
) -> None:
    await flows.add(
        parent(
            child("done"),
            child("ignored", ignore_dependency_on_failure=True),
            child("failed", fail_parent_on_failure=True),
            child("open", delay=AN_HOUR),
        )
    )
    done, ignored, failed = await harness.claim(3)
    await harness.complete(done)
    await harness.fail(ignored)
    await harness.fail(failed)

    flow = await flows.get_flow("mail", "parent")

    assert flow
    assert {each.job.name for each in flow.children} == {"done", "ignored", "failed", "open"}
    assert await flow.job.dependency_counts() == (1, 1, 1, 1)
    kinds: dict[ChildKind, Claim[Job]] = {"processed": done, "ignored": ignored, "failed": failed}
    for kind, claim in kinds.items():
        page = await flow.job.get_dependencies(kind)
        assert list(page.children) == [f"bull:mail:{claim.id}"]
        assert page.cursor == 0
    assert await flows.get_flow("mail", "nobody") is None
    shallow = await flows.get_flow("mail", "parent", depth=1)
    assert shallow
    assert shallow.children == []


async def test_pages_hold_every_child_once(harness: Harness, flows: FlowProducer) -> None:
    flow = await flows.add(parent(*(child() for _ in range(1000))))

    seen: list[str] = []
    cursor = 0
    while True:
        page = await flow.job.get_dependencies("unprocessed", cursor=cursor, count=50)
        seen += page.children
        if not (cursor := page.cursor):
            break

    assert set(seen) == {f"bull:mail:{each.job.id}" for each in flow.children}


async def test_a_child_knows_its_parent(harness: Harness, flows: FlowProducer) -> None:
    flow = await flows.add(parent(child()))
    found = await (await harness.claim_one()).work.get_parent()

    assert found
    assert found.id == "parent"
    assert await flow.job.get_parent() is None


async def test_a_parent_can_be_told_to_wait_for_a_child_no_longer(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child()))
    leaf = flow.children[0].job

    assert await leaf.remove_child_dependency()

    assert await state(flow) == "waiting"
    assert "parentKey" not in await harness.hash(leaf.id)
    assert not await leaf.remove_child_dependency()
    await harness.call("DEL", harness.keys.of(leaf.id).job)
    with pytest.raises(NotFound):
        await leaf.remove_child_dependency()


async def test_children_that_nobody_has_begun_can_be_removed(
    harness: Harness, flows: FlowProducer
) -> None:
    deep = FlowNode(name="deep", queue="other", children=[child("leaf", delay=AN_HOUR)])
    flow = await flows.add(
        parent(child("held"), child("failed"), child("open"), child("late", delay=AN_HOUR), deep)
    )
    await harness.claim_one()
    await harness.fail(await harness.claim_one())

    assert await flow.job.remove_unprocessed_children() == 4

    assert await harness.ids("wait") == []
    assert await harness.ids("delayed") == []
    assert (await flow.job.dependency_counts()).unprocessed == 2
    assert len(await harness.events("removed")) == 3
    left = [flow.children[at].job for at in (2, 3, 4)]
    assert [await harness.call("EXISTS", f"bull:{job.queue_name}:{job.id}") for job in left] == [
        0,
        0,
        0,
    ]


async def test_only_the_holder_can_leave_a_job_to_wait_for_its_children(
    harness: Harness, queue: Queue
) -> None:
    await queue.add("parent")
    claim = await harness.claim_one()
    assert not await claim.work.move_to_waiting_children()
    await queue.add("child", parent=Parent(claim.id, "bull:mail"), delay=AN_HOUR)
    await harness.call("SET", harness.keys.of(claim.id).lock, "somebody")

    with pytest.raises(LeaseLost, match="somebody else"):
        await claim.work.move_to_waiting_children()

    assert await harness.where(claim.id) == ["active"]


async def test_a_job_can_wait_for_one_child_of_several(harness: Harness, queue: Queue) -> None:
    await queue.add("parent")
    claim = await harness.claim_one()
    await queue.add("slow", parent=Parent(claim.id, "bull:mail"), delay=AN_HOUR)
    assert not await claim.work.move_to_waiting_children(child="bull:mail:other")
    assert await claim.work.move_to_waiting_children(child="bull:mail:2")

    assert await claim.work.state() == "waiting-children"
    assert await harness.call("EXISTS", harness.keys.of(claim.id).lock) == 0


async def test_a_handler_adds_children_and_waits_for_them(harness: Harness, queue: Queue) -> None:
    finished = asyncio.Event()

    async def handle(job: Job) -> Any:
        if job.name == "child":
            return job.data["n"]
        if not await job.children_values():
            for n in range(3):
                await queue.add("child", {"n": n}, parent=Parent(job.id, "bull:mail"))
            if await job.move_to_waiting_children():
                raise JobWaitingForChildren
        finished.set()
        return sorted((await job.children_values()).values())

    parent = await queue.add("parent", attempts=1)
    async with Worker("mail", handle, harness.store), asyncio.timeout(LIMIT_S):
        await finished.wait()

    await parent.refresh()
    assert parent.result == [0, 1, 2]
    assert parent.attempts_made == 1
    assert parent.attempts_started == 2


async def test_a_child_of_a_missing_parent_is_refused(queue: Queue) -> None:
    with pytest.raises(NotFound, match="parent"):
        await queue.add("child", parent=Parent("nobody", "bull:mail"))


async def test_what_comes_with_a_job_that_is_held_up_is_not_lost_with_an_answer(
    harness: Harness, queue: Queue
) -> None:
    """A parent that has got a child since it was claimed cannot complete, and fails instead."""
    first = await harness.add(attempts=1)
    claim = await harness.claim_one()
    await queue.add("late", parent=Parent(first, "bull:mail"))
    make_lossy(harness.worker).lose_next(after=1)
    settled = [Settled(claim, Done())]
    with pytest.raises(StoreUnreachable):
        await harness.worker.settle(settled, claim=1)

    reply = await harness.worker.settle(settled, claim=1)

    assert [each.work.name for each in reply.claims] == ["late"]
    assert await harness.where(first) == ["failed"]
