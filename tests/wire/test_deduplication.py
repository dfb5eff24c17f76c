"""Jobs of one side that stand for jobs of the other."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.wire.node import Json, NodeError, NodePeer
from waystation.bullmq import Deduplication, FlowNode, FlowProducer, Job, JobOptions, Queue, Worker
from waystation.core.errors import InvalidOption

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


def rule(**more: Json) -> dict[str, Json]:
    return {"deduplication": {"id": "same", **more}}


@pytest.mark.parametrize("more", [{}, {"ttl": HOUR}, {"ttl": HOUR, "extend": True}])
async def test_either_side_turns_away_what_the_other_has(
    more: dict[str, Any], any_node: NodePeer, redis_url: str
) -> None:
    theirs = any_node.queue("q")
    async with Queue("q", redis_url) as ours:
        first = await theirs.call("add", "a", {}, rule(**more))
        second = await ours.add("b", deduplication=Deduplication("same", **more))
        assert second.id == first["id"]

        assert await ours.remove_deduplication_key("same")
        third = await ours.add("c", deduplication=Deduplication("same", **more))
        fourth = await theirs.call("add", "d", {}, rule(**more))

        assert fourth["id"] == third.id != first["id"]
        assert await theirs.call("getDeduplicationJobId", "same") == third.id


async def test_either_side_replaces_a_delayed_job_of_the_other(
    any_node: NodePeer, redis_url: str
) -> None:
    theirs = any_node.queue("q")
    replace = rule(replace=True)
    async with Queue("q", redis_url) as ours:
        first = await theirs.call("add", "a", {}, {**replace, "delay": HOUR})
        second = await ours.add(
            "b", delay=AN_HOUR, deduplication=Deduplication("same", replace=True)
        )
        assert await ours.get_job(first["id"]) is None

        third = await theirs.call("add", "c", {}, {**replace, "delay": HOUR})
        assert await ours.get_job(second.id) is None
        assert [job.id for job in await ours.get_jobs("delayed")] == [third["id"]]


async def test_a_job_that_node_added_last_is_run_by_us_when_ours_has_finished(
    node6: NodePeer, redis_url: str
) -> None:
    running, go_on = asyncio.Event(), asyncio.Event()
    seen: list[Json] = []

    async def handle(job: Job) -> None:
        seen.append(job.data)
        running.set()
        await go_on.wait()

    theirs = node6.queue("q")
    keep = Deduplication("same", keep_last_if_active=True)
    async with Queue("q", redis_url) as ours, Worker("q", handle, redis_url):
        await ours.add("work", {"n": 1}, deduplication=keep)
        await running.wait()
        for n in (2, 3):
            await theirs.call("add", "work", {"n": n}, rule(keepLastIfActive=True))
        go_on.set()
        await theirs.poll("getJobCounts", gives={"completed": 2, "active": 0, "waiting": 0})

    assert seen == [{"n": 1}, {"n": 3}]
    assert await theirs.call("getDeduplicationJobId", "same") is None


async def test_a_job_that_we_added_last_is_run_by_node_when_its_own_has_finished(
    node6: NodePeer, redis_url: str
) -> None:
    theirs = node6.queue("q")
    worker = node6.worker("q", {"*": [["untilPaused", "gate"], ["echo"]]})
    await theirs.call("add", "work", {"n": 1}, rule(keepLastIfActive=True))
    await worker.until("started")
    async with Queue("q", redis_url) as ours:
        for n in (2, 3):
            await ours.add(
                "work", {"n": n}, deduplication=Deduplication("same", keep_last_if_active=True)
            )
    async with Queue("gate", redis_url) as gate:
        await gate.pause()

    done = await worker.until("completed", count=2)

    assert [entry["returnvalue"] for entry in done] == [{"n": 1}, {"n": 3}]


async def test_node_listeners_hear_of_jobs_that_we_turned_away(
    node6: NodePeer, redis_url: str
) -> None:
    events = node6.events("q")
    async with Queue("q", redis_url) as ours:
        for _ in range(2):
            await ours.add("work", deduplication=Deduplication("same"))
        (entry,) = await events.until("deduplicated")

    assert (entry["jobId"], entry["deduplicationId"], entry["deduplicatedJobId"]) == (
        "1",
        "same",
        "2",
    )


async def test_both_sides_refuse_a_leaf_that_another_job_could_stand_for(
    any_node: NodePeer, redis_url: str
) -> None:
    leaf = {"name": "leaf", "queueName": "q", "data": {}, "opts": rule()}
    with pytest.raises(NodeError, match="Deduplication and parent"):
        await any_node.flow().call(
            "add", {"name": "above", "queueName": "q", "data": {}, "children": [leaf]}
        )

    async with FlowProducer(redis_url) as flows:
        ours = FlowNode(
            name="leaf", queue="q", options=JobOptions(deduplication=Deduplication("same"))
        )
        with pytest.raises(InvalidOption, match="has a parent, so it cannot be deduplicated"):
            await flows.add(FlowNode(name="above", queue="q", children=[ours]))
