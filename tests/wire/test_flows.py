"""Flows whose parents and children are on different sides."""

import asyncio
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from tests.wire.node import Json, NodePeer
from waystation.bullmq import (
    FlowNode,
    FlowProducer,
    Job,
    JobOptions,
    JobWaitingForChildren,
    Parent,
    Queue,
    Worker,
)

ONCE = JobOptions(attempts=1)
FLAGS = {
    "failParentOnFailure": "fail_parent_on_failure",
    "continueParentOnFailure": "continue_parent_on_failure",
    "ignoreDependencyOnFailure": "ignore_dependency_on_failure",
    "removeDependencyOnFailure": "remove_dependency_on_failure",
}
BECOMES = {
    "failParentOnFailure": "failed",
    "continueParentOnFailure": "completed",
    "ignoreDependencyOnFailure": "completed",
    "removeDependencyOnFailure": "completed",
}


async def values(job: Job) -> Json:
    return await job.children_values()


async def double(job: Job) -> int:
    return job.data["n"] * 2


async def fail(job: Job) -> None:
    raise RuntimeError("no luck")


def numbered(n: int) -> dict[str, Json]:
    return {"name": "child", "queueName": "children", "data": {"n": n}, "opts": {"jobId": f"c{n}"}}


async def test_our_children_of_a_node_parent(any_node: NodePeer, redis_url: str) -> None:
    parents = any_node.worker("parents", {"*": [["childrenValues"]]})
    await any_node.flow().call(
        "add",
        {"name": "parent", "queueName": "parents", "children": [numbered(1), numbered(2)]},
    )

    async with Worker("children", double, redis_url):
        (done,) = await parents.until("completed")

    assert done["returnvalue"] == {"bull:children:c1": 2, "bull:children:c2": 4}


async def test_node_children_of_our_parent(any_node: NodePeer, redis_url: str) -> None:
    any_node.worker("children", {"*": [["return", {"text": "ü"}]]})
    leaf = FlowNode(name="child", queue="children", options=JobOptions(job_id="only"))
    tree = FlowNode(name="parent", queue="parents", children=[leaf])

    async with FlowProducer(redis_url) as flows, Worker("parents", values, redis_url):
        flow = await flows.add(tree)
        assert await flow.job.wait(timeout=60) == {"bull:children:only": {"text": "ü"}}


@pytest.mark.parametrize("flag", FLAGS)
async def test_our_child_fails_as_its_node_parent_expects(
    flag: str, any_node: NodePeer, redis_url: str
) -> None:
    any_node.worker("parents", {"*": [["return", "ran"]]})
    child = {"name": "bad", "queueName": "children", "opts": {"jobId": "bad", flag: True}}
    await any_node.flow().call(
        "add",
        {
            "name": "parent",
            "queueName": "parents",
            "opts": {"jobId": "parent"},
            "children": [child],
        },
    )

    async with Worker("children", fail, redis_url):
        await any_node.queue("parents").poll("getJobState", "parent", gives=BECOMES[flag])

    job = await any_node.queue("parents").call("getJob", "parent")
    if flag == "failParentOnFailure":
        assert job["failedReason"] == "child bull:children:bad failed"
    ignored = await any_node.queue("parents").call_job("parent", "getIgnoredChildrenFailures")
    kept = flag in ("continueParentOnFailure", "ignoreDependencyOnFailure")
    assert ignored == ({"bull:children:bad": "no luck"} if kept else {})


@pytest.mark.parametrize("flag", FLAGS)
async def test_a_node_child_fails_as_our_parent_expects(
    flag: str, any_node: NodePeer, redis_url: str
) -> None:
    any_node.worker("children", {"*": [["throw", "no luck"]]})
    options = JobOptions(attempts=1, job_id="bad", **{FLAGS[flag]: True})  # pyright: ignore[reportArgumentType]
    child = FlowNode(name="bad", queue="children", options=options)
    tree = FlowNode(
        name="parent",
        queue="parents",
        options=JobOptions(attempts=1, job_id="parent"),
        children=[child],
    )

    async with FlowProducer(redis_url) as flows, Worker("parents", values, redis_url):
        flow = await flows.add(tree)
        await any_node.queue("parents").poll("getJobState", "parent", gives=BECOMES[flag])

        await flow.job.refresh()
        if flag == "failParentOnFailure":
            assert flow.job.failed_reason == "child bull:children:bad failed"
            assert await flow.job.failed_children() == ["bull:children:bad"]
        kept = flag in ("continueParentOnFailure", "ignoreDependencyOnFailure")
        ignored = await flow.job.ignored_children_failures()
        assert ignored == ({"bull:children:bad": "no luck"} if kept else {})


async def test_a_failure_climbs_through_parents_of_both_sides(
    node6: NodePeer, redis_url: str
) -> None:
    """The leaf fails with us, its parent with Node, and theirs with us again."""
    node6.worker("middle", {"*": [["return", 1]]})
    up = JobOptions(attempts=1, fail_parent_on_failure=True)
    leaf = FlowNode(name="leaf", queue="ours", options=up)
    middle = FlowNode(name="middle", queue="middle", options=up, children=[leaf])
    top = FlowNode(name="top", queue="top", options=ONCE, children=[middle])

    async with (
        FlowProducer(redis_url) as flows,
        Worker("ours", fail, redis_url),
        Worker("top", values, redis_url),
    ):
        flow = await flows.add(top)
        await node6.queue("top").poll("getJobState", flow.job.id, gives="failed")
        await flow.job.refresh()

    middle_id = flow.children[0].job.id
    assert flow.job.failed_reason == f"child bull:middle:{middle_id} failed"


async def test_each_side_reads_the_trees_of_the_other(any_node: NodePeer, redis_url: str) -> None:
    theirs = any_node.flow()
    await theirs.call(
        "add",
        {
            "name": "top",
            "queueName": "q",
            "opts": {"jobId": "node"},
            "children": [{"name": "leaf", "queueName": "other", "opts": {"jobId": "leaf"}}],
        },
    )
    async with FlowProducer(redis_url) as flows:
        found = await flows.get_flow("q", "node")
        await flows.add(
            FlowNode(
                name="top",
                queue="q",
                options=JobOptions(job_id="ours"),
                children=[FlowNode(name="leaf", queue="other")],
            )
        )
    assert found
    assert [child.job.id for child in found.children] == ["leaf"]
    tree = await theirs.call("getFlow", {"id": "ours", "queueName": "q"})
    assert tree["job"]["name"] == "top"
    assert [child["job"]["name"] for child in tree["children"]] == ["leaf"]


async def test_a_child_that_node_completed_before_counts_for_our_parent(
    node6: NodePeer, redis_url: str
) -> None:
    children = node6.queue("children")
    await children.call("add", "early", {}, {"jobId": "early"})
    await node6.worker("children", {"*": [["return", 7]]}).until("completed")
    leaf = FlowNode(name="early", queue="children", options=JobOptions(job_id="early"))

    async with FlowProducer(redis_url) as flows, Worker("parents", values, redis_url):
        flow = await flows.add(FlowNode(name="parent", queue="parents", children=[leaf]))
        assert await flow.job.wait(timeout=60) == {"bull:children:early": 7}


async def test_our_handler_waits_for_children_that_node_runs(
    any_node: NodePeer, redis_url: str
) -> None:
    any_node.worker("children", {"*": [["echo"]]})

    async def handle(job: Job) -> Any:
        if job.attempts_started <= 1:
            async with Queue("children", redis_url) as queue:
                for n in range(2):
                    await queue.add("child", n, parent=Parent(job.id, "bull:parents"))
            if await job.move_to_waiting_children():
                raise JobWaitingForChildren
        return sorted((await job.children_values()).values())

    async with Queue("parents", redis_url) as queue, Worker("parents", handle, redis_url):
        job = await queue.add("parent", attempts=1)
        assert await job.wait(timeout=60) == [0, 1]


async def test_a_node_handler_waits_for_children_that_we_run(
    node6: NodePeer, redis_url: str
) -> None:
    parents = node6.worker(
        "parents",
        {
            "*": [
                ["waitForChildren", [{"queue": "children", "name": "child", "data": {"n": 4}}]],
                ["childrenValues"],
            ]
        },
    )
    await node6.queue("parents").call("add", "parent", {})

    async with Worker("children", double, redis_url), asyncio.timeout(LIMIT_S):
        (done,) = await parents.until("completed")

    assert list(done["returnvalue"].values()) == [8]


async def test_node_detaches_and_removes_children_that_we_added(
    node6: NodePeer, redis_url: str
) -> None:
    late = JobOptions(delay=3600)
    async with FlowProducer(redis_url) as flows:
        flow = await flows.add(
            FlowNode(
                name="parent",
                queue="parents",
                children=[FlowNode(name=name, queue="children", options=late) for name in "ab"],
            )
        )
        first, second = (child.job for child in flow.children)
        await node6.queue("children").call_job(first.id, "removeChildDependency")
        assert (await flow.job.dependency_counts()).unprocessed == 1
        await node6.queue("parents").call_job(flow.job.id, "removeUnprocessedChildren")

        assert await second.state() == "unknown"
        assert await flow.job.state() == "waiting"
