"""Schedules made on one side and kept going by the other, and what both call the next run."""

import subprocess
from collections import Counter
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.wire.install import find_node, installed
from tests.wire.node import Json, NodePeer, NodeProcess
from tests.wire.steps import Steps
from waystation.bullmq import Job, JobOptions, Queue, Schedule, Worker
from waystation.bullmq.scheduling import cron
from waystation.core.errors import InvalidOption
from waystation.core.store.connection import Store

CRON = Path(__file__).with_name("cron.mjs")
PATTERNS = [
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "15 1,2,3 * * *",
    "*/20 1-3 * * *",
    "0 0 3 * * *",
    "0 30 1-3 * * *",
    "30 30 2 * * *",
    "15,45 */10 2 * * *",
    "*/10 * * * * *",
    "0 12 * * MON-FRI",
    "0 0 13 * 5",
    "0 0 */2 * 1",
    "0 0 1-7 * */2",
    "0 0 L * *",
    "0 0 * * 5L",
    "0 0 * * 1#2",
    "0 0 * JAN,JUL sun",
    "0 0 29 2 *",
    "0 0 ? * 7",
    "3/15 0-23/6 * * *",
    "@weekly",
    "* * * *",
]
NIGHTS = [
    ("UTC", "2027-01-30T11:22:33"),
    ("UTC", "2028-02-27T23:59:59"),
    ("Europe/Berlin", "2027-03-27T22:00:00"),
    ("Europe/Berlin", "2027-10-30T22:00:00"),
    ("America/New_York", "2027-03-13T23:30:00"),
    ("America/New_York", "2027-11-06T23:30:00"),
    ("Asia/Kathmandu", "2027-06-01T00:00:01"),
]
UNREADABLE = ["61 * * * *", "0 0 LW * *", "0 0 * * MON,WED#2", "a b c d e", "* * * * * * *"]


def node_runs(process: NodeProcess, asked: list[tuple[str, str, int, int]]) -> list[Json]:
    """When Node's cron parser says, `count` runs each."""
    done = subprocess.run(
        [find_node().program, str(CRON)],
        cwd=installed(process.version),
        input=msgspec.json.encode(asked),
        capture_output=True,
        check=True,
    )
    return msgspec.json.decode(done.stdout)


def our_runs(pattern: str, tz: str, after: int, count: int) -> list[int]:
    runs: list[int] = []
    while len(runs) < count and (run := cron.next_after(pattern, tz, after)):
        runs.append(run)
        after = run
    return runs


def test_both_sides_call_the_same_instants_due(node6_process: NodeProcess) -> None:
    asked = [(pattern, tz, _millis(at, tz), 6) for pattern in PATTERNS for tz, at in NIGHTS]

    theirs = node_runs(node6_process, asked)

    assert [our_runs(*each) for each in asked] == theirs


def test_where_a_night_has_no_midnight_only_node_leaves_the_day_out(
    node6_process: NodeProcess,
) -> None:
    asked = ("0 0 * * *", "Africa/Cairo", _millis("2027-04-29T12:00:00", "Africa/Cairo"), 1)

    ((theirs,),) = node_runs(node6_process, [asked])

    assert our_runs(*asked) == [_millis("2027-04-30T01:00:00", "Africa/Cairo")]
    assert theirs == _millis("2027-05-01T00:00:00", "Africa/Cairo")


def test_what_node_cannot_read_we_do_not_take(node6_process: NodeProcess) -> None:
    theirs = node_runs(node6_process, [(pattern, "UTC", 0, 1) for pattern in UNREADABLE])

    assert all(isinstance(each, str) for each in theirs)
    for pattern in UNREADABLE:
        with pytest.raises(InvalidOption, match="pattern"):
            Schedule(pattern=pattern)


async def ignore(job: Job) -> str:
    return job.name


async def test_we_keep_a_schedule_of_node_going(any_node: NodePeer, redis_url: str) -> None:
    theirs = any_node.queue("q")
    await theirs.call(
        "upsertJobScheduler", "tick", {"every": 50, "limit": 4}, {"name": "beat", "data": {"n": 1}}
    )
    await theirs.call("upsertJobScheduler", "far", {"pattern": "0 0 3 * * *", "tz": "Asia/Tokyo"})

    async with Queue("q", redis_url) as ours, Worker("q", ignore, redis_url):
        await theirs.poll("getJobCounts", gives={"completed": 4, "delayed": 1})
        jobs = await ours.get_jobs("completed")
        found = await ours.schedulers.get("far")

    assert {(job.name, job.data["n"], job.scheduler_id) for job in jobs} == {("beat", 1, "tick")}
    assert [job.options.raw["repeat"]["count"] for job in jobs] == [1, 2, 3, 4]
    assert found
    assert found.next_ms == cron.next_after("0 0 3 * * *", "Asia/Tokyo", jobs[0].created_ms)
    scheduler = await theirs.call("getJobScheduler", "tick")
    assert scheduler["iterationCount"] == 4


async def test_node_keeps_a_schedule_of_ours_going(any_node: NodePeer, redis_url: str) -> None:
    worker = any_node.worker("q", {"*": [["echo"]]})
    async with Queue("q", redis_url) as ours:
        await ours.schedulers.upsert(
            "tick",
            Schedule(every=0.05, limit=4),
            name="beat",
            data={"text": "ü"},
            options=JobOptions(attempts=2),
        )
        done = await worker.until("completed", count=4)
        await any_node.queue("q").poll("getJobCounts", gives={"delayed": 0, "waiting": 0})

        assert [entry["returnvalue"] for entry in done] == [{"text": "ü"}] * 4
        jobs = await ours.get_jobs("completed")
        assert [job.options.raw["repeat"]["count"] for job in jobs] == [1, 2, 3, 4]
        assert {job.options.attempts for job in jobs} == {2}


async def test_workers_of_both_sides_run_each_slot_once(node6: NodePeer, redis_url: str) -> None:
    node6.worker("q", {"*": [["echo"]]}, concurrency=4)
    async with Queue("q", redis_url) as ours, Worker("q", ignore, redis_url, concurrency=4):
        for n in range(5):
            await ours.schedulers.upsert(f"s{n}", Schedule(every=0.04, limit=12))
        await node6.queue("q").poll("getJobCounts", gives={"completed": 60, "delayed": 0})

        jobs = await ours.get_jobs("completed")
        counts = Counter((job.scheduler_id, job.options.raw["repeat"]["count"]) for job in jobs)

    assert counts == {(f"s{n}", count): 1 for n in range(5) for count in range(1, 13)}
    assert {job.attempts_started for job in jobs} == {1}


async def test_a_pattern_with_seconds_is_handed_to_and_fro(node6: NodePeer, redis_url: str) -> None:
    theirs = node6.queue("q")
    await theirs.call("upsertJobScheduler", "tick", {"pattern": "* * * * * *", "limit": 3})
    async with Queue("q", redis_url) as ours:
        async with Worker("q", ignore, redis_url):
            await theirs.poll("getJobCounts", gives={"completed": [1, 2]})
        await node6.worker("q").until("completed")
        await theirs.poll("getJobCounts", gives={"completed": 3})
        slots = [int(job.id.rpartition(":")[2]) for job in await ours.get_jobs("completed")]

    assert len(set(slots)) == 3
    assert all(slot % 1000 == 0 for slot in slots)


async def test_each_side_changes_and_removes_the_schedules_of_the_other(
    any_node: NodePeer, redis_url: str
) -> None:
    theirs = any_node.queue("q")
    async with Queue("q", redis_url) as ours:
        await theirs.call("upsertJobScheduler", "tick", {"pattern": "0 0 1 1 *", "tz": "UTC"})
        await ours.schedulers.upsert("tick", Schedule(pattern="0 0 2 1 *", tz="UTC"), name="new")
        (job,) = await ours.get_jobs("delayed")
        assert job.name == "new"

        await theirs.call("upsertJobScheduler", "tick", {"pattern": "0 0 3 1 *", "tz": "UTC"})
        (job,) = await ours.get_jobs("delayed")
        assert await ours.schedulers.remove("tick")
        assert await theirs.call("getJobSchedulersCount") == 0
        assert await ours.get_jobs("delayed") == []

        await ours.schedulers.upsert("tock", Schedule(pattern="0 0 2 1 *", tz="UTC"))
        assert await theirs.call("removeJobScheduler", "tock")
        assert await ours.get_jobs("delayed") == []


async def test_a_scheduler_that_we_pause_is_gone_for_node_until_somebody_resumes_it(
    any_node: NodePeer, redis_url: str
) -> None:
    theirs = any_node.queue("q")
    yearly = {"pattern": "0 0 1 1 *", "tz": "UTC"}
    await theirs.call("upsertJobScheduler", "tick", yearly, {"name": "beat", "data": {"n": 1}})
    async with Queue("q", redis_url) as ours:
        assert await ours.schedulers.pause("tick")
        assert await theirs.call("getJobSchedulers") == []
        assert await theirs.call("getJobScheduler", "tick") is None
        await theirs.poll("getJobCounts", gives={"delayed": 0, "waiting": 0})

        await ours.schedulers.resume("tick")
        scheduler = await theirs.call("getJobScheduler", "tick")
        assert (scheduler["name"], scheduler["pattern"], scheduler["tz"]) == (
            "beat",
            "0 0 1 1 *",
            "UTC",
        )
        assert scheduler["template"]["data"] == {"n": 1}
        (job,) = await ours.get_jobs("delayed")
        assert scheduler["next"] == int(job.id.rpartition(":")[2])

        # A program that makes its schedulers when it starts has the last word.
        assert await ours.schedulers.pause("tick", by="anna")
        await theirs.call("upsertJobScheduler", "tick", yearly, {"name": "again"})
        [found] = await ours.schedulers.list()
        assert (found.name, found.paused_at) == ("again", None)
        assert (found.started_again, found.paused_by) == (True, "anna")
        assert len(await ours.get_jobs("delayed")) == 1
        assert await theirs.call("removeJobScheduler", "tick")
        assert await ours.schedulers.list() == []
        assert await ours.schedulers.upsert("tick", Schedule(pattern="0 0 1 1 *", tz="UTC")) != ""


async def test_workers_of_node_run_what_is_due_of_a_paused_scheduler_and_make_no_other(
    any_node: NodePeer, redis_url: str
) -> None:
    async with Queue("q", redis_url) as ours:
        await ours.schedulers.upsert("tick", Schedule(every=0.05), name="beat")
        await ours.schedulers.pause("tick")
        worker = any_node.worker("q", {"*": [["echo"]]})
        await worker.until("completed", count=1)
        await any_node.queue("q").poll(
            "getJobCounts", gives={"completed": 1, "delayed": 0, "waiting": 0, "active": 0}
        )
        await ours.schedulers.resume("tick")
        await worker.until("completed", count=3)
        await ours.schedulers.remove("tick")


def _millis(at: str, tz: str) -> int:
    return int(datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(tz)).timestamp()) * 1000


async def test_a_pattern_of_one_field_goes_on_with_our_worker(
    node6: NodePeer, queue: Queue, store: Store
) -> None:
    remote = node6.queue("q")
    await remote.call("upsertJobScheduler", "s", {"pattern": "*"}, {"name": "tick"})
    [job] = await queue.get_jobs("delayed")
    await job.promote()
    async with Worker("q", Steps(store), store):
        await remote.poll("getCompletedCount", gives=1)

    assert await remote.call("getDelayedCount") == 1
