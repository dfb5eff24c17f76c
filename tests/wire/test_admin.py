"""Each side looks after what the other has put in or worked on."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from tests.wire.node import NodePeer
from waystation.bullmq import JobFailed, Queue
from waystation.bullmq.worker import Worker
from waystation.core.store.connection import connect

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)
FAILING = {"do": [["throw", "no"]]}


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with await connect(redis_url) as store, Queue("q", store) as opened:
        yield opened


async def job_keys(redis: Redis) -> Sequence[bytes | str]:
    """What is left of jobs with numbers for ids."""
    return await redis.keys("bull:q:[0-9]*")


async def test_node_honours_our_pause(queue: Queue, node6: NodePeer) -> None:
    remote = await node6.queue("q").ready()
    await queue.pause()
    await queue.add("work")
    worker = await node6.worker("q").ready()

    assert await remote.call("isPaused") is True
    assert await remote.call("getJobCounts", "waiting", "active") == {"waiting": 1, "active": 0}
    assert await worker.journal(type="started") == []
    await queue.resume()
    await worker.until("completed")


async def test_we_honour_nodes_pause(queue: Queue, any_node: NodePeer, redis_url: str) -> None:
    remote = any_node.queue("q")
    await queue.add("before")
    await remote.call("pause")
    during = await queue.add("during")

    assert await queue.is_paused()
    assert (await queue.counts("waiting"))["waiting"] == 2
    async with Worker("q", lambda job: job.name, redis_url, concurrency=1):
        assert await during.state() == "waiting"
        await remote.call("resume")
        assert await during.wait(timeout=60) == "during"
    assert (await queue.counts("completed"))["completed"] == 2


async def test_node_drains_and_obliterates_our_queue(
    queue: Queue, any_node: NodePeer, redis: Redis
) -> None:
    remote = any_node.queue("q")
    await queue.add_many([("work", n) for n in range(5)])
    await queue.add("urgent", priority=1)
    await queue.add("later", delay=AN_HOUR)

    await remote.call("drain", True)
    assert await job_keys(redis) == []
    await queue.add_many([("work", n) for n in range(5)])
    await remote.call("obliterate", {"force": True})

    assert await redis.keys("*") == []


async def test_we_drain_and_obliterate_nodes_queue(
    queue: Queue, any_node: NodePeer, redis: Redis
) -> None:
    remote = any_node.queue("q")
    for options in ({}, {"priority": 1}, {"delay": HOUR}):
        await remote.call("add", "work", {}, options)
    await remote.call("pause")
    await remote.call("add", "paused", {})

    assert await queue.drain(delayed=True) == 4
    assert await job_keys(redis) == []
    await remote.call("resume")
    await remote.call("add", "work", {})
    await queue.obliterate(force=True)

    assert await redis.keys("*") == []


async def test_our_drain_leaves_nodes_scheduler_going(
    queue: Queue, node6: NodePeer, redis: Redis
) -> None:
    remote = node6.queue("q")
    await remote.call("add", "first", {})
    await remote.call("upsertJobScheduler", "s", {"every": HOUR})
    await remote.call("add", "last", {})
    [iteration] = [
        job.id for job in await queue.get_jobs("waiting", "delayed") if job.scheduler_id == "s"
    ]

    assert await queue.drain(delayed=True) == 2

    assert [job.id for job in await queue.get_jobs("waiting", "delayed")] == [iteration]
    worker = node6.worker("q")
    await worker.until("completed", jobId=iteration)
    assert (await remote.call("getJobScheduler", "s"))["iterationCount"] == 2


async def finished_by_node(node: NodePeer) -> None:
    remote, worker = node.queue("q"), node.worker("q")
    for n in range(3):
        await remote.call("add", "good", {"n": n})
        await remote.call("add", "bad", FAILING)
    await worker.until(["completed", "failed"], count=6)
    await worker.close()


async def test_we_clean_what_node_finished(queue: Queue, any_node: NodePeer, redis: Redis) -> None:
    await finished_by_node(any_node)
    events = any_node.events("q")

    assert await queue.clean(AN_HOUR, 0, "completed") == []
    assert len(await queue.clean(0, 2, "completed")) == 2
    assert len(await queue.clean(0, 0, "failed")) == 3

    assert await queue.counts("completed", "failed") == {"completed": 1, "failed": 0}
    assert len(await job_keys(redis)) == 1
    cleaned = await events.until("cleaned", count=3)
    assert [entry["count"] for entry in cleaned] == ["0", "2", "3"]


async def test_we_retry_what_failed_at_nodes(queue: Queue, any_node: NodePeer) -> None:
    await finished_by_node(any_node)
    [first, *_] = await queue.get_jobs("failed")
    assert first.failed_reason == "no"

    await first.update_data({"do": [["return", "mended"]]})
    await first.retry()
    for job in await queue.get_jobs("failed"):
        await job.update_data({})
    assert await queue.retry_all() == 2

    worker = any_node.worker("q")
    await worker.until("completed", count=3)
    assert await first.wait() == "mended"


async def finish_ours(queue: Queue, url: str) -> None:
    def work(job: object) -> None:
        if getattr(job, "name", "") == "bad":
            raise RuntimeError("no")

    jobs = [await queue.add(name, attempts=1) for name in ("good", "bad") * 2]
    async with Worker("q", work, url, concurrency=4):
        for job in jobs:
            with contextlib.suppress(JobFailed):
                await job.wait(timeout=60)


async def test_node_cleans_and_retries_what_we_finished(
    queue: Queue, any_node: NodePeer, redis_url: str
) -> None:
    await finish_ours(queue, redis_url)
    remote = any_node.queue("q")
    counts = {"completed": 2, "failed": 2}
    assert await remote.call("getJobCounts", "completed", "failed") == counts
    [bad, other] = await remote.call("getFailed")
    assert bad["failedReason"] == "no"
    assert "RuntimeError: no" in bad["stacktrace"][0]

    await remote.call_job(bad["id"], "retry")
    assert await queue.state(bad["id"]) == "waiting"
    await remote.call("retryJobs", {"state": "failed"})
    assert await queue.state(other["id"]) == "waiting"
    assert len(await remote.call("clean", 0, 10, "completed")) == 2

    assert (await queue.counts("completed"))["completed"] == 0


async def test_each_side_removes_the_others_jobs(
    queue: Queue, any_node: NodePeer, redis: Redis
) -> None:
    remote = any_node.queue("q")
    ours = [
        await queue.add("a"),
        await queue.add("b", priority=1),
        await queue.add("c", delay=AN_HOUR),
    ]
    theirs = [
        await remote.call("add", "work", {}, options)
        for options in ({}, {"priority": 1}, {"delay": HOUR}, {"deduplication": {"id": "x"}})
    ]
    await ours[0].log("hi")
    await remote.call_job(theirs[0]["id"], "log", "hi")

    for job in ours:
        assert await remote.call("remove", job.id) == 1
    for job in theirs:
        assert await queue.remove(job["id"])

    assert await job_keys(redis) == []
    assert await queue.get_deduplication_job_id("x") is None


async def test_what_is_held_is_not_removed_by_the_other_side(
    queue: Queue, any_node: NodePeer
) -> None:
    job = await queue.add("long", {"do": [["runFor", 300]]})
    worker = any_node.worker("q")
    await worker.until("started")

    assert not await queue.remove(job.id)
    await worker.until("completed")
    assert await queue.remove(job.id)


async def test_each_side_steers_the_others_jobs(queue: Queue, any_node: NodePeer) -> None:
    remote = any_node.queue("q")
    ours = await queue.add("ours", delay=AN_HOUR)
    theirs = await remote.call("add", "theirs", {}, {"delay": HOUR})
    found = await queue.get_job(theirs["id"])
    assert found

    await found.change_delay(2 * AN_HOUR)
    assert (await remote.call("getJob", found.id))["delay"] == 2 * HOUR
    await found.change_priority(5)
    await found.promote()
    assert await remote.call("getJobState", found.id) == "prioritized"
    await remote.call_job(ours.id, "promote")
    assert await ours.is_waiting()
    await remote.call_job(ours.id, "changePriority", {"priority": 3})

    worker = any_node.worker("q")
    started = await worker.until("started", count=2)
    assert [entry["jobId"] for entry in started] == [ours.id, found.id]


async def test_each_side_hears_progress_and_reads_logs(queue: Queue, any_node: NodePeer) -> None:
    remote, events = any_node.queue("q"), any_node.events("q")
    job = await queue.add("work", keep_logs=2)

    await job.update_progress(40, "Generating scene 1")
    for line in ("one", "two"):
        await job.log(line)
    await remote.call_job(job.id, "log", "three")
    await remote.call_job(job.id, "updateProgress", 50)

    entries = await events.until("progress", count=2)
    assert [entry["data"] for entry in entries] == [
        {"progress": 40, "message": "Generating scene 1"},
        50,
    ]
    assert await remote.call("getJobLogs", job.id) == {"logs": ["two", "three"], "count": 2}
    assert await job.logs() == (["two", "three"], 2)
    await job.refresh()
    assert job.progress == 50


async def test_each_side_waits_for_the_others_work(queue: Queue, node6: NodePeer) -> None:
    job = await queue.add("work", {"do": [["return", {"sum": 3}]]})
    node6.worker("q")

    assert await job.wait(timeout=60) == {"sum": 3}


async def test_global_limits_are_shared(queue: Queue, any_node: NodePeer) -> None:
    remote = any_node.queue("q")

    await queue.limits.set_concurrency(3)
    await queue.limits.set_rate_limit(5, AN_HOUR)
    assert await remote.call("getGlobalConcurrency") == 3
    assert await remote.call("getGlobalRateLimit") == {"max": 5, "duration": HOUR}
    await remote.call("setGlobalConcurrency", 1)
    assert await queue.limits.get_concurrency() == 1
    await queue.add_many([("work", {"do": [["never"]]})] * 2)
    worker = any_node.worker("q", concurrency=5, limiter={"max": 5, "duration": HOUR})
    await worker.until("started")

    assert await queue.limits.is_maxed()
    assert await remote.call("isMaxed") is True
    await queue.limits.rate_limit(AN_HOUR)
    assert 0 < await remote.call("getRateLimitTtl", 5) <= HOUR
    assert (await queue.counts("active"))["active"] == 1


async def test_our_version_is_told_where_node_looks(queue: Queue, node6: NodePeer) -> None:
    await queue.add("work")
    assert await queue.version() == "bullmq:6.7.0+waystation"

    remote = node6.queue("q")

    assert await remote.call("getVersion") == await queue.version() == "bullmq:6.7.0"
