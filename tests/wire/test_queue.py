"""Jobs put in by one side, as the other side finds and works on them."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.support.patience import LIMIT_S
from tests.wire.node import NodeError, NodePeer
from waystation.bullmq import (
    Backoff,
    Deduplication,
    JobOptions,
    Keep,
    NewJob,
    NotAdded,
    Parent,
    Queue,
)
from waystation.core.errors import NotFound
from waystation.core.store.connection import connect

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def delete(url: str, key: str) -> None:
    async with await connect(url) as store:
        await store.redis.delete(key)


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with await connect(redis_url) as store, Queue("q", store) as opened:
        yield opened


async def test_node_reads_every_kind_of_job_we_add(queue: Queue, any_node: NodePeer) -> None:
    await queue.add("text", 'ü, / and " and \u2028')
    await queue.add("later", {"n": 1}, delay=AN_HOUR, attempts=4, backoff=Backoff.exponential(0.1))
    await queue.add("urgent", [1, None], priority=7, remove_on_complete=Keep(age=60, count=5))
    await queue.add("named", job_id="mine", lifo=True, keep_logs=3, remove_on_fail=True)
    await queue.add("once", deduplication=Deduplication("x", ttl=AN_HOUR))
    remote = any_node.queue("q")

    jobs = {job["name"]: job for job in await remote.call("getJobs")}

    assert jobs["text"]["data"] == 'ü, / and " and \u2028'
    assert (await remote.call("getJobState", "2")) == "delayed"
    assert jobs["later"]["delay"] == HOUR
    assert jobs["later"]["opts"]["attempts"] == 4
    assert jobs["later"]["opts"]["backoff"] == {"type": "exponential", "delay": 100}
    assert (await remote.call("getJobState", "3")) == "prioritized"
    assert jobs["urgent"]["data"] == [1, None]
    assert jobs["urgent"]["priority"] == 7
    assert jobs["urgent"]["opts"]["removeOnComplete"] == {"age": 60, "count": 5}
    assert jobs["named"]["id"] == "mine"
    assert jobs["named"]["opts"]["keepLogs"] == 3
    assert jobs["named"]["opts"]["removeOnFail"] is True
    assert jobs["once"]["deduplicationId"] == "x"
    assert (await remote.call("getDeduplicationJobId", "x")) == "5"


async def test_node_runs_what_we_add_in_our_order(queue: Queue, any_node: NodePeer) -> None:
    await queue.add("low", priority=9)
    await queue.add("high", priority=1)
    await queue.add_many([("plain", n) for n in range(3)])
    await queue.add("front", lifo=True)
    await queue.add("soon", delay=0.02)
    worker = any_node.worker("q")

    started = await worker.until("started", count=7)

    names = [entry["name"] for entry in started if entry["name"] != "soon"]
    assert names == ["front", "plain", "plain", "plain", "high", "low"]
    await worker.until("completed", count=7)


async def test_an_idle_node_worker_is_woken(queue: Queue, node6: NodePeer) -> None:
    worker = await node6.worker("q", drainDelay=60).ready()
    await worker.until("drained")

    await queue.add("wake up")
    await worker.until("completed", count=1, within=LIMIT_S)
    await queue.add_many([("wake up", 1)])
    await worker.until("completed", count=2, within=LIMIT_S)


async def test_we_read_every_kind_of_job_node_adds(queue: Queue, any_node: NodePeer) -> None:
    remote = any_node.queue("q")
    await remote.call("add", "text", 'ü, / and " and \u2028')
    await remote.call("add", "later", {"n": 1}, {"delay": HOUR, "attempts": 4, "backoff": 500})
    await remote.call("add", "urgent", None, {"priority": 7, "keepLogs": 3})
    await remote.call("add", "once", {}, {"deduplication": {"id": "x"}})

    jobs = {job.name: job for job in await queue.get_jobs()}

    assert jobs["text"].data == 'ü, / and " and \u2028'
    assert jobs["later"].delay == AN_HOUR
    assert jobs["later"].options.attempts == 4
    assert jobs["later"].options.backoff == Backoff("fixed", 0.5)
    assert await jobs["later"].is_delayed()
    assert jobs["urgent"].data is None
    assert jobs["urgent"].priority == 7
    assert jobs["urgent"].options.keep_logs == 3
    assert jobs["once"].deduplication_id == "x"
    assert await queue.get_deduplication_job_id("x") == jobs["once"].id


async def test_ids_are_counted_together(queue: Queue, any_node: NodePeer) -> None:
    remote = any_node.queue("q")

    first = await queue.add("a")
    second = await remote.call("add", "b", {})
    third, fourth = await queue.add_many([("c", 1), ("d", 2)])

    assert [first.id, second["id"], third.id, fourth.id] == ["1", "2", "3", "4"]
    assert (await remote.call("add", "e", {}, {"jobId": "mine"}))["id"] == "mine"
    assert (await queue.add("f", job_id="mine")).id == "mine"
    assert (await remote.call("getJob", "mine"))["name"] == "e"


async def test_counts_and_ranges_are_the_same_on_both_sides(queue: Queue, node6: NodePeer) -> None:
    remote = node6.queue("q")
    await queue.add_many([("work", n) for n in range(6)])
    await queue.add_many([("work", n, JobOptions(priority=n)) for n in (1, 1, 3)])
    await queue.add("later", delay=AN_HOUR)

    theirs = await remote.call("getJobCounts")
    assert theirs == await queue.counts(*theirs)
    assert await remote.call("getCountsPerPriority", [0, 1, 2, 3]) == {
        str(priority): count
        for priority, count in (await queue.counts_per_priority([0, 1, 2, 3])).items()
    }
    for asc in (True, False):
        for state in ("waiting", "prioritized", "delayed"):
            ids = [job["id"] for job in await remote.call("getJobs", [state], 1, 4, asc)]
            ours = await queue.get_jobs(state, offset=1, limit=4, newest_first=not asc)
            assert ids == [job.id for job in ours]
    assert await remote.call("count") == await queue.count()


@pytest.mark.parametrize("asc", [True, False])
async def test_both_sides_fill_a_page_past_ids_without_a_job(
    queue: Queue, redis_url: str, node6: NodePeer, asc: bool
) -> None:
    jobs = await queue.add_many([("work", n) for n in range(8)])
    remote = node6.queue("q")
    for job in (jobs[1], jobs[4], jobs[5]):
        await delete(redis_url, f"bull:q:{job.id}")

    for start, end in ((0, 2), (0, 3), (2, 3), (3, 5), (0, 100), (8, 9)):
        page = await queue.get_jobs(
            "waiting", offset=start, limit=end - start + 1, newest_first=not asc
        )
        ours = [job.id for job in page]
        theirs = await remote.call("getJobs", ["waiting"], start, end, asc)
        assert ours == [job["id"] for job in theirs], (start, end)


async def test_progress_of_any_number_is_read_by_node(queue: Queue, any_node: NodePeer) -> None:
    job = await queue.add("work")
    for progress in (1500, -1, 2.5):
        await job.update_progress(progress)
        assert (await any_node.queue("q").call("getJob", job.id))["progress"] == progress


async def test_a_job_that_is_refused_for_its_parent_gets_no_number(
    queue: Queue, node6: NodePeer
) -> None:
    theirs = node6.queue("theirs")
    orphan = {"parent": {"id": "nobody", "queue": "bull:theirs"}}
    with pytest.raises(NodeError, match="parent"):
        await theirs.call("add", "work", {}, orphan)
    assert (await theirs.call("add", "work", {}))["id"] == "1"

    parent = Parent(id="nobody", queue="bull:q")
    with pytest.raises(NotFound, match="parent"):
        await queue.add("work", parent=parent)
    with pytest.raises(NotAdded) as caught:
        await queue.add_many([NewJob("work", options=JobOptions(parent=parent)), NewJob("work")])
    assert [job and job.id for job in caught.value.added] == [None, "1"]
    # A child of one that comes before it in the same call has its parent.
    first = NewJob("first", options=JobOptions(job_id="first"))
    child = NewJob("child", options=JobOptions(parent=Parent(id="first", queue="bull:q")))
    orphan = NewJob("orphan", options=JobOptions(parent=parent))
    with pytest.raises(NotAdded) as caught:
        await queue.add_many([first, orphan, child, orphan, NewJob("last"), orphan])
    ids = [job and job.id for job in caught.value.added]
    assert ids == ["first", None, "3", None, "4", None]
    assert (await queue.add("next")).id == "5"
