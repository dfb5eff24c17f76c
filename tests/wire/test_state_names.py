"""Every name of a state that Node takes means the same jobs to us."""

from typing import Any, cast

import pytest

from tests.wire.node import NodePeer
from waystation.bullmq import Queue, State
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.source import BullSource, ClaimOptions
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.claim import Settled
from waystation.core.store.connection import Store

NAMES = [
    *("wait", "waiting", "paused", "active", "delayed", "prioritized", "completed", "failed"),
    "waiting-children",
]


async def fill(queue: Queue, store: Store) -> None:
    """Put a job or two into every state."""
    source = BullSource(store, QueueKeys("q"), ClaimOptions(worker="test"))
    outcomes: dict[str, Outcome | None] = {
        "done": Done(1), "dead": Failed(RuntimeError()), "runs": None,
    }  # fmt: skip
    for name, outcome in outcomes.items():
        await queue.add(name, job_id=name, attempts=1)
        [claim] = (await source.settle([], claim=1)).claims
        if outcome:
            await source.settle([Settled(claim, outcome)], claim=0)
    await queue.add_many([("waits", n) for n in range(2)])
    await queue.add("urgent", job_id="urgent", priority=1)
    await queue.add("later", job_id="later", delay=60)


def ids(jobs: Any) -> list[str]:
    return [job["id"] if isinstance(job, dict) else job.id for job in jobs]  # pyright: ignore[reportUnknownVariableType]


@pytest.mark.parametrize("paused", [False, True])
async def test_counts_and_lists_by_name_are_nodes(
    paused: bool, node6: NodePeer, queue: Queue, store: Store
) -> None:
    remote = node6.queue("q")
    # By then it has said who opened the queue; we would set the jobs aside for BullMQ 5 otherwise.
    await remote.call("count")
    await fill(queue, store)
    if paused:
        await queue.pause()

    for name in NAMES:
        theirs = await remote.call("getJobs", [name], 0, -1, True)
        found = await queue.get_jobs(cast(State, name), limit=None)
        assert ids(found) == ids(theirs), name
        counted = await remote.call("getJobCounts", name)
        assert list((await queue.counts(cast(State, name))).values()) == list(counted.values()), (
            name
        )
    assert await queue.count() == await remote.call("count")


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("name", NAMES[:-1])
async def test_cleaning_by_name_is_nodes(
    name: str, paused: bool, node6: NodePeer, queue: Queue, store: Store
) -> None:
    remote = node6.queue("q")

    async def refill() -> None:
        await queue.obliterate(force=True)
        await fill(queue, store)
        if paused:
            # By Node, because deleting the queue has deleted who opened it.
            await remote.call("pause")

    await refill()
    theirs = await remote.call("clean", 0, 0, name), await remote.call("getJobCounts")
    await refill()
    ours = sorted(await queue.clean(0, 0, cast(Any, name))), await remote.call("getJobCounts")

    assert ours == (sorted(theirs[0]), theirs[1])


@pytest.mark.parametrize("paused", [False, True])
async def test_what_bullmq_5_has_set_aside_is_paused_to_us_too(
    paused: bool, node5: NodePeer, queue: Queue
) -> None:
    remote = node5.queue("q")
    await queue.add_many([("waits", n) for n in range(3)])
    if paused:
        await remote.call("pause")
    theirs = ids(await remote.call("getJobs", ["paused"], 0, -1, True))

    assert ids(await queue.get_jobs(cast(State, "paused"))) == theirs
    assert await queue.counts(cast(State, "paused")) == {"paused": len(theirs)}
    assert sorted(await queue.clean(0, 0, cast(Any, "paused"))) == sorted(theirs)
    assert await queue.count() == (0 if paused else 3)


async def test_an_event_is_emitted_once_when_nothing_is_cleaned(
    queue: Queue, store: Store, node6: NodePeer
) -> None:
    await fill(queue, store)
    await queue.clean(0, 1, "active")
    events = node6.events("q")
    await queue.add("last", job_id="last")
    await events.until("added", jobId="last")

    assert [entry["count"] for entry in await events.journal(type="cleaned")] == ["0"]
