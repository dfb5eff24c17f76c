"""What dashboards see of our workers, and we of Node's."""

import pytest

from tests.wire.node import NodePeer
from tests.wire.steps import Steps
from waystation.bullmq import Queue, QueueEvents, Worker
from waystation.core.store.connection import Store


async def test_each_side_sees_the_workers_of_both_by_name(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    await any_node.worker("q", name="theirs").ready()
    async with Worker("q", Steps(store), store, name="ours"):
        seen_by_node = {each["rawname"] for each in await remote.call("getWorkers")}
        seen_by_us = {each["rawname"] for each in await queue.workers()}

    assert seen_by_node == seen_by_us == {"bull:cQ==:w:theirs", "bull:cQ==:w:ours"}
    assert {each["rawname"] for each in await queue.workers()} == {"bull:cQ==:w:theirs"}


async def test_node_counts_our_listeners(node6: NodePeer, store: Store) -> None:
    async with QueueEvents("q", store) as events:
        listening = events.listen("0")
        async with Queue("q", store) as queue:
            await queue.add("work")
        await anext(listening)
        assert len(await node6.queue("q").call("getQueueEvents")) == 1
        await listening.aclose()


async def test_who_ran_a_job_is_told_to_both_sides(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    await remote.call("add", "theirs", {})
    async with Worker("q", Steps(store), store, name="ours"):
        await remote.poll("getCompletedCount", gives=1)
    job = await queue.add("ours")
    await any_node.worker("q", name="theirs").until("completed")

    assert (await remote.call("getJob", "1"))["processedBy"] == "ours"
    await job.refresh()
    assert job.processed_by == "theirs"


async def test_progress_and_logs_of_a_running_handler_reach_the_other_side(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    steps = {"do": [["log", "one"], ["progress", 50], ["log", "two"], ["progress", {"at": "end"}]]}
    remote, events = any_node.queue("q"), any_node.events("q")
    await remote.call("add", "theirs", steps, {"keepLogs": 1})
    async with Worker("q", Steps(store), store):
        progress = await events.until("progress", count=2)
        await remote.poll("getCompletedCount", gives=1)
    job = await queue.add("ours", steps)
    await any_node.worker("q").until("completed")

    assert [entry["data"] for entry in progress] == [50, {"at": "end"}]
    assert (await remote.call("getJob", "1"))["progress"] == {"at": "end"}
    assert (await remote.call("getJobLogs", "1"))["logs"] == ["two"]
    await job.refresh()
    assert job.progress == {"at": "end"}
    assert (await job.logs()).lines == ["one", "two"]


async def test_both_sides_count_into_the_same_metrics(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    await queue.add_many([("work", n) for n in range(7)])
    async with Worker("q", Steps(store), store, metrics_points=60):
        await remote.poll("getCompletedCount", gives=7)
    await queue.add_many([("work", n) for n in range(5)])
    await any_node.worker("q", metrics={"maxDataPoints": 60}).until("completed", count=5)

    theirs = await remote.call("getMetrics", "completed")
    assert theirs["meta"]["count"] == 12
    assert (await queue.metrics("completed")).total == 12


@pytest.mark.slow
async def test_metrics_fill_minutes_without_work_as_node_does(
    node6: NodePeer, queue: Queue, store: Store
) -> None:
    """Ten minutes ago three jobs were counted, and none since."""
    remote = node6.queue("q")
    seen: list[list[int]] = []
    for name in ("node", "ours"):
        async with Queue(name, store) as other:
            await other.add("work")
            metrics = f"bull:{name}:metrics:completed"
            seconds, _ = await store.redis.time()
            before = (seconds - 600) * 1000
            fields = ("count", 3, "prevTS", before, "prevCount", 0)
            await store.redis.execute_command("HSET", metrics, *fields)
            if name == "node":
                worker = node6.worker(name, metrics={"maxDataPoints": 5})
                await worker.until("completed")
                await worker.close()
            else:
                async with Worker(name, Steps(store), store, metrics_points=5):
                    await node6.queue(name).poll("getCompletedCount", gives=1)
            answer = await node6.queue(name).call("getMetrics", "completed")
            seen.append([int(point) for point in answer["data"]])

    assert seen[0] == seen[1]
    assert await remote.call("getJobCounts", "completed") == {"completed": 0}
