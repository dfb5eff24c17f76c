"""Node on a queue of ours with groups: what it sees of them, and that it loses none of their jobs.

Jobs of groups wait in keys that Node does not know, so none of its workers starts them there. What
Node itself makes wait goes to `wait`, whoever's it is: then the next worker takes it, and ours puts
it back into its group first.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire.node import NodeError, NodePeer
from tests.wire.test_rescue import BRIEF, CHECK_MS, kill_our_worker_with
from tests.wire.test_shared_queue import blocked
from waystation.bullmq import (
    Deduplication,
    FlowNode,
    FlowProducer,
    Group,
    Job,
    JobOptions,
    Queue,
    Worker,
)
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.source import BullSource, ClaimOptions
from waystation.core.line import wake_up
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.store.connection import Store

AN_HOUR = timedelta(hours=1)
MANY = 1200


def ours(store: Store) -> BullSource:
    return BullSource(store, QueueKeys("q"), ClaimOptions(worker="test"))


async def claimed(store: Store, many: int = 10) -> Sequence[Claim[Job]]:
    return (await ours(store).settle([], claim=many)).claims


async def waiting(queue: Queue, group: str = "acme") -> int:
    return (await queue.groups.get(group)).waiting


# Workers and producers of both sides


async def test_each_job_is_run_once_and_node_starts_none_of_a_group(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    runs: list[str] = []

    async def handle(job: Job) -> None:
        runs.append(job.id)
        await asyncio.sleep(0.001)

    remote = any_node.queue("q")
    theirs = await any_node.worker("q", {"*": [["runFor", 2]]}, concurrency=5).ready()
    async with Worker("q", handle, store, concurrency=5):
        for first in range(0, MANY, 300):
            groups = [JobOptions(group=Group(str(n % 7), parent="acme")) for n in range(100)]
            await queue.add_many([("grouped", first, options) for options in groups])
            await queue.add_many([("ours", first + n) for n in range(100)])
            await remote.call("addBulk", [{"name": "theirs", "data": n} for n in range(100)])
        await remote.poll("getCompletedCount", gives=MANY, within=LIMIT_S)

    started = await theirs.journal(type="started")
    assert "grouped" not in {entry["name"] for entry in started}
    times = Counter(runs) + Counter([entry["jobId"] for entry in started])
    assert (len(times), set(times.values())) == (MANY, {1})
    assert await queue.groups.list() == []


async def test_our_idle_worker_is_woken_for_a_grouped_job_beside_idle_ones_of_nodes(
    any_node: NodePeer,
    queue: Queue,
    store: Store,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It would look by itself when a call that waits at the marker ends.
    monkeypatch.setattr(wake_up, "LONGEST_BLOCK_S", 3600.0)
    begun = asyncio.Event()

    async def handle(_: Job) -> None:
        begun.set()

    for _ in range(3):
        await any_node.worker("q", drainDelay=60).ready()
    async with Worker("q", handle, store, name="ours", poll=3600):
        for _ in range(3):
            await blocked(redis, "bull:cQ==:w:ours")
            await queue.add("grouped", group="acme")
            await asyncio.wait_for(begun.wait(), LIMIT_S)
            begun.clear()


async def test_jobs_of_nodes_producers_take_turns_with_groups(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    await queue.add_many([("acme", n, JobOptions(group="acme")) for n in range(4)])
    rows: list[dict[str, Any]] = [{"name": "theirs", "data": n} for n in range(4)]
    await any_node.queue("q").call("addBulk", rows)

    for _ in range(4):
        assert sorted(claim.work.name for claim in await claimed(store, 2)) == ["acme", "theirs"]


async def test_a_group_in_the_options_of_a_node_producer_is_kept_and_binds_nobody(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    await queue.groups.pause("acme")
    added = await any_node.queue("q").call("add", "work", {}, {"group": {"id": "acme"}})

    assert await waiting(queue) == 0
    [claim] = await claimed(store)
    # What it asked for can be read, but a group is what our producers put a job in.
    assert (claim.id, claim.work.group) == (added["id"], Group("acme"))


# What Node sees


async def test_node_reads_a_grouped_job_and_counts_it_nowhere_while_it_waits(
    any_node: NodePeer, queue: Queue
) -> None:
    remote = any_node.queue("q")
    job = await queue.add("work", {"n": 1}, group=Group("acme", cost=3))

    found = await remote.call("getJob", job.id)
    assert (found["name"], found["data"], found["opts"]["group"]) == (
        "work",
        {"n": 1},
        {"id": "acme", "cost": 3},
    )
    assert await remote.call("getJobState", job.id) == "unknown"
    assert await remote.call("getWaiting") == []
    counts = await remote.call("getJobCounts")
    assert set(counts.values()) == {0}
    assert (await queue.counts("waiting"))["waiting"] == 1


async def test_nodes_listeners_hear_of_grouped_jobs_and_pass_over_what_they_do_not_know(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    events = any_node.events("q")
    job = await queue.add("work", group=Group("acme", cost=3))
    async with Worker("q", charge, store):
        await job.wait(timeout=60)

    await events.until("completed", jobId=job.id)
    heard = await events.journal(jobId=job.id)
    assert [entry["type"] for entry in heard] == [
        "added",
        "waiting",
        "active",
        "charged",
        "completed",
    ]
    assert (heard[0]["group"], heard[3]["cost"]) == ("acme", "7")


async def charge(job: Job) -> None:
    await job.charge(7)


# What Node does to a job that waits in a group

LEAVES: dict[str, list[Any]] = {
    "drain": [True],
    "clean": [0, 100, "wait"],
    "pause": [],
    "resume": [],
    "promoteJobs": [],
    "retryJobs": [{"state": "failed"}],
    "trimEvents": [0],
    "removeOrphanedJobs": [],
}


@pytest.mark.parametrize("method", LEAVES)
async def test_what_node_does_to_the_queue_leaves_grouped_jobs(
    method: str, any_node: NodePeer, queue: Queue, store: Store
) -> None:
    job = await queue.add("work", group="acme")
    await any_node.queue("q").call(method, *LEAVES[method])
    await queue.resume()

    assert await waiting(queue) == 1
    assert [claim.id for claim in await claimed(store)] == [job.id]


async def test_a_queue_that_node_obliterates_keeps_its_grouped_jobs_which_run(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    job = await queue.add("work", group="acme")
    await any_node.queue("q").call("pause")
    await any_node.queue("q").call("obliterate", {"force": True})

    async with Worker("q", lambda job: job.name, store, poll=0.05, stalled_interval=0.05):
        assert await job.wait(timeout=60) == "work"


async def test_a_queue_that_node_pauses_starts_no_grouped_job_until_it_resumes(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    await queue.add("before", group="acme")
    await remote.call("pause")
    await queue.add("during", group="acme")

    assert await claimed(store) == []
    async with Worker("q", lambda job: job.name, store):
        await remote.call("resume")
        await remote.poll("getCompletedCount", gives=2, within=LIMIT_S)


@pytest.mark.parametrize(
    ("method", "arguments"), [("promote", []), ("retry", []), ("changeDelay", [5])]
)
async def test_what_node_refuses_for_a_waiting_job_it_refuses_for_one_in_a_group(
    method: str, arguments: list[Any], any_node: NodePeer, queue: Queue, store: Store
) -> None:
    job = await queue.add("work", group="acme")

    with pytest.raises(NodeError):
        await any_node.queue("q").call_job(job.id, method, *arguments)

    assert [claim.id for claim in await claimed(store)] == [job.id]


async def test_what_node_changes_of_a_grouped_job_is_changed(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    job = await queue.add("work", group="acme")
    await remote.call_job(job.id, "updateData", {"n": 2})
    await remote.call_job(job.id, "changePriority", {"priority": 4})

    [claim] = await claimed(store)
    assert (claim.work.data, claim.work.priority) == ({"n": 2}, 4)


async def test_a_grouped_job_that_node_removes_is_gone_and_leaves_its_group(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    first, second = await queue.add_many([("a", n, JobOptions(group="acme")) for n in range(2)])
    assert await any_node.queue("q").call("remove", first.id) == 1

    assert [claim.id for claim in await claimed(store)] == [second.id]
    assert await queue.groups.list() == []


@pytest.mark.parametrize("group", ["acme", "bell", None])
async def test_an_id_that_node_removed_from_a_group_is_run_once_when_it_is_used_again(
    group: str | None, any_node: NodePeer, queue: Queue, store: Store
) -> None:
    await queue.add("old", group="acme", job_id="x")
    remote = any_node.queue("q")
    await remote.call("remove", "x")
    if group is None:
        await remote.call("add", "new", {}, {"jobId": "x"})
    else:
        await queue.add("new", group=group, job_id="x")

    claims = await claimed(store)
    assert [claim.work.name for claim in claims] == ["new"]
    await ours(store).settle([Settled(claim, Done(None)) for claim in claims], claim=0)
    assert await claimed(store) == []
    assert await queue.groups.list() == []
    assert await queue.counts("waiting", "active", "completed") == {
        "waiting": 0,
        "active": 0,
        "completed": 1,
    }


async def test_an_id_that_waits_in_a_group_is_taken_for_nodes_producers(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    await queue.add("ours", group="acme", job_id="x", deduplication=Deduplication("once"))
    remote = any_node.queue("q")
    for options in ({"jobId": "x"}, {"deduplication": {"id": "once"}}):
        assert (await remote.call("add", "theirs", {}, options))["id"] == "x"

    assert [claim.work.name for claim in await claimed(store)] == ["ours"]
    assert await claimed(store) == []


# What Node makes wait


@pytest.mark.parametrize("method", ["promote", "promoteJobs", "retry", "retryJobs"])
async def test_what_node_makes_wait_waits_in_its_group_once_a_worker_of_ours_looks(
    method: str, any_node: NodePeer, queue: Queue, store: Store
) -> None:
    is_delayed = method.startswith("promote")
    job = await queue.add("work", group="acme", attempts=1, delay=AN_HOUR if is_delayed else 0)
    if not is_delayed:
        [claim] = await claimed(store)
        await ours(store).settle([Settled(claim, Failed(ValueError("no")))], claim=0)
    await queue.groups.pause("acme")
    remote = any_node.queue("q")
    if method.endswith("Jobs"):
        await remote.call(method)
    else:
        await remote.call_job(job.id, method)
    assert await remote.call("getJobState", job.id) == "waiting"

    assert await claimed(store) == []
    assert (await waiting(queue), await job.state()) == (1, "waiting")
    await queue.groups.resume("acme")
    assert [claim.id for claim in await claimed(store)] == [job.id]


async def test_a_job_that_node_makes_wait_may_be_run_by_node(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    await queue.groups.set("acme", concurrency=1)
    job = await queue.add("work", group="acme", delay=AN_HOUR)
    await any_node.queue("q").call_job(job.id, "promote")
    await any_node.worker("q").until("completed", jobId=job.id)

    after = await queue.add("after", group="acme")
    assert [claim.id for claim in await claimed(store)] == [after.id]


async def test_node_rescues_grouped_jobs_of_our_killed_worker(
    any_node: NodePeer, queue: Queue, redis_url: str
) -> None:
    await queue.add_many([("work", n, JobOptions(group="acme")) for n in range(2)])
    held = await kill_our_worker_with(2, redis_url)
    worker = any_node.worker("q", stalledInterval=CHECK_MS)
    completed = await worker.until("completed", count=2)
    assert {entry["jobId"] for entry in completed} == set(held)
    assert (await queue.groups.get("acme")).active == 0


async def test_we_rescue_grouped_jobs_that_a_dead_node_worker_held(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    job = await queue.add("work", group="acme", delay=AN_HOUR)
    await any_node.queue("q").call_job(job.id, "promote")
    worker = any_node.worker("q", {"*": [["never"]]}, **BRIEF, skipLockRenewal=True)
    await worker.until("started", jobId=job.id)
    await worker.close(force=True)

    async with Worker("q", lambda job: job.name, store, stalled_interval=CHECK_MS / 1000):
        assert await job.wait(timeout=60) == "work"
    assert await queue.groups.list() == []


async def test_a_flow_of_grouped_jobs_whose_child_node_runs_goes_on(
    any_node: NodePeer, store: Store, queue: Queue
) -> None:
    grouped = JobOptions(group="acme")
    async with FlowProducer(store) as flows:
        children = [
            FlowNode(name="ours", queue="q", options=grouped),
            FlowNode(name="theirs", queue="q"),
        ]
        tree = await flows.add(
            FlowNode(name="parent", queue="q", options=grouped, children=children)
        )
    worker = any_node.worker("q", {"*": [["return", "node"]]})
    await worker.until("completed")
    await worker.close()
    async with Worker("q", lambda job: job.name, store):
        assert await tree.job.wait(timeout=60) == "parent"


async def test_a_grouped_parent_waits_in_its_group_when_node_ends_its_last_child(
    any_node: NodePeer, store: Store, queue: Queue
) -> None:
    await queue.groups.pause("acme")
    async with FlowProducer(store) as flows:
        child = FlowNode(name="child", queue="q-other")
        tree = await flows.add(
            FlowNode(name="parent", queue="q", options=JobOptions(group="acme"), children=[child])
        )
    await any_node.worker("q-other").until("completed")

    assert await claimed(store) == []
    assert await waiting(queue) == 1
    await queue.groups.resume("acme")
    assert [claim.id for claim in await claimed(store)] == [tree.job.id]


async def test_children_in_groups_go_with_a_parent_that_node_removes(
    any_node: NodePeer, store: Store, queue: Queue
) -> None:
    async with FlowProducer(store) as flows:
        child = FlowNode(name="child", queue="q", options=JobOptions(group="acme"))
        tree = await flows.add(FlowNode(name="parent", queue="q", children=[child]))
    assert await any_node.queue("q").call("remove", tree.job.id) == 1

    assert await claimed(store) == []
    assert await queue.groups.list() == []


async def test_a_job_that_node_delays_or_fails_in_its_hands_keeps_its_group(
    any_node: NodePeer, store: Store, queue: Queue, redis: Redis
) -> None:
    steps = {"do": [["throw", "no", 1]]}
    job = await queue.add("work", steps, group="acme", attempts=2, backoff=3600, delay=AN_HOUR)
    await any_node.queue("q").call_job(job.id, "promote")
    worker = any_node.worker("q")
    await worker.until("failed")
    await worker.close()
    found = await queue.get_job(job.id)
    assert found is not None
    assert (await found.state(), found.group) == ("delayed", Group("acme"))
    await found.promote()
    assert await waiting(queue) == 1
    assert [claim.id for claim in await claimed(store)] == [job.id]
