"""Retries begun by one side and ended by the other, after pauses that both count alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pytest
from redis.asyncio import Redis

from tests.wire.node import NodePeer
from tests.wire.steps import Steps, one_start
from waystation.bullmq import Job, Queue, Worker
from waystation.core.store.connection import Store

Side: TypeAlias = Literal["node", "ours"]
LISTED = [70_000, 20_000]
FAILING = {"do": [["throw", "no"]]}


async def fail_once(side: Side, node: NodePeer, store: Store, made: int) -> None:
    """Let a worker of this side end one attempt of the job, and go."""
    remote = node.queue("q")
    if side == "node":
        worker = node.worker("q", backoff=LISTED)
        await remote.poll("getJob", "1", gives={"attemptsMade": made})
        await worker.close()
        return
    async with Worker("q", Steps(store), store, backoff_strategy=listed):
        await remote.poll("getJob", "1", gives={"attemptsMade": made})


async def listed(made: int, _: str, __: BaseException, ___: Job) -> float:
    """The waits that the Node worker above has, too."""
    return LISTED[made - 1] / 1000


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ({"type": "fixed", "delay": 70_000}, [70_000, 70_000]),
        (70_000, [70_000, 70_000]),
        ({"type": "exponential", "delay": 70_000}, [70_000, 140_000]),
        ({"type": "listed"}, LISTED),
    ],
    ids=["fixed", "a number", "exponential", "custom"],
)
@pytest.mark.parametrize("first", ["node", "ours"])
async def test_pauses_go_on_when_the_other_side_takes_over(
    first: Side,
    backoff: Any,
    waits: Sequence[int],
    node6: NodePeer,
    queue: Queue,
    store: Store,
    redis: Redis,
) -> None:
    remote = node6.queue("q")
    await remote.call("add", "work", FAILING, {"attempts": 3, "backoff": backoff})
    seen: list[int] = []
    for made, side in enumerate((first, "ours" if first == "node" else "node"), start=1):
        await fail_once(side, node6, store, made)
        seen.append(int(await redis.hget("bull:q:1", "delay") or 0))
        if await remote.call("getJobState", "1") == "delayed":
            await remote.call_job("1", "promote")

    assert seen == waits
    await fail_once(first, node6, store, 3)
    await remote.poll("getJobState", "1", gives="failed")
    job = await remote.call("getJob", "1")
    assert (job["attemptsMade"], len(job["stacktrace"])) == (3, 3)


@pytest.mark.parametrize("side", ["node", "ours"])
async def test_jitter_takes_from_the_pause_what_both_sides_may_take(
    side: Side, node6: NodePeer, store: Store, redis: Redis
) -> None:
    remote = node6.queue("q")
    rule = {"type": "fixed", "delay": 100_000, "jitter": 0.5}
    await remote.call("add", "work", FAILING, {"attempts": 2, "backoff": rule})

    await fail_once(side, node6, store, 1)

    assert 50_000 <= int(await redis.hget("bull:q:1", "delay") or 0) <= 100_000


@pytest.mark.parametrize("options", [{}, {"priority": 3}, {"lifo": True}], ids=str)
async def test_without_a_backoff_the_other_side_can_try_at_once(
    options: Mapping[str, Any], any_node: NodePeer, store: Store
) -> None:
    remote = any_node.queue("q")
    steps = {"do": [["throw", "once", 1], ["return", "done"]]}
    await remote.call("add", "work", steps, {"attempts": 2, **options})
    async with one_start(store):
        await remote.poll("getJob", "1", gives={"attemptsMade": 1})
        theirs = any_node.worker("q")
        await remote.poll("getJobState", "1", gives="completed")
        await theirs.close()

    job = await remote.call("getJob", "1")
    assert (job["attemptsMade"], job["returnvalue"], job["failedReason"]) == (2, "done", "once")


async def test_node_ends_what_we_began_by_our_own_options(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    job = await queue.add("work", FAILING, attempts=2, backoff=0.01)
    events = any_node.events("q")
    async with one_start(store):
        await events.until("delayed")
        await any_node.queue("q").poll("getJob", job.id, gives={"attemptsMade": 1})
    worker = any_node.worker("q")
    await worker.until("failed")

    [exhausted] = await events.until("retries-exhausted")
    assert exhausted["attemptsMade"] == "2"
    found = await queue.get_job(job.id)
    assert found
    assert (found.failed_reason, found.attempts_made) == ("no", 2)
