"""Node listens while we work, and we listen while Node works."""

from tests.wire.node import NodePeer
from tests.wire.steps import Steps
from waystation.bullmq import Queue, QueueEvent, QueueEvents, Worker
from waystation.core.store.connection import Store

HOUR = 3_600_000
KINDS = {
    "added": [{"name": "good", "data": {"do": [["progress", {"at": "ü"}], ["return", [1]]]}}],
    "failed": [{"name": "bad", "data": {"do": [["throw", "no"]]}, "opts": {"attempts": 1}}],
    "delayed": [{"name": "late", "data": {}, "opts": {"delay": 5}}],
    "retried": [
        {"name": "again", "data": {"do": [["throw", "no", 1]]}, "opts": {"attempts": 2}},
        {
            "name": "later",
            "data": {"do": [["throw", "no", 1]]},
            "opts": {"attempts": 2, "backoff": 5},
        },
    ],
    "moved": [
        {"name": "moved", "data": {"do": [["moveToDelayed", 5], ["return", None]]}},
        {"name": "waits", "data": {"do": [["moveToWait"], ["return", None]]}},
    ],
    "deduplicated": [
        {"name": "once", "data": {"n": n}, "opts": {"deduplication": {"id": "x"}}} for n in (1, 2)
    ],
    "duplicated": [{"name": "mine", "data": {"n": n}, "opts": {"jobId": "mine"}} for n in (1, 2)],
}
JOBS = [job for jobs in KINDS.values() for job in jobs]
ENDED = len(JOBS) - 2


async def test_every_event_of_our_worker_reaches_a_node_listener(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote, events = any_node.queue("q"), any_node.events("q")
    await remote.call("addBulk", JOBS)
    async with Worker("q", Steps(store), store):
        await events.until("completed", count=ENDED - 1)
        await events.until("failed", count=1)
        await events.until("drained")
    await queue.pause()
    await queue.resume()
    await queue.add("gone", job_id="gone")
    await queue.remove("gone")
    await queue.clean(0, 100, "failed")
    await events.until("cleaned")

    entries = await events.journal()

    assert {entry["type"] for entry in entries} >= {
        "added", "waiting", "active", "progress", "completed", "failed", "retries-exhausted",
        "delayed", "deduplicated", "duplicated", "drained", "paused", "resumed",
        "removed", "cleaned",
    }  # fmt: skip
    assert [entry for entry in entries if entry["type"] == "error"] == []
    [progress] = await events.journal(type="progress")
    assert progress["data"] == {"at": "ü"}
    [failed] = await events.journal(type="failed")
    assert failed["failedReason"] == "no"
    # A listener that one entry had killed would not receive this.
    await queue.add("last", job_id="last")
    await events.until("added", jobId="last")


async def test_every_event_of_a_node_worker_reaches_our_listener(
    any_node: NodePeer, store: Store
) -> None:
    remote = any_node.queue("q")
    async with QueueEvents("q", store) as events:
        await remote.call("addBulk", JOBS)
        any_node.worker("q")
        received: list[QueueEvent] = []
        ended = 0
        async for event in events:
            received.append(event)
            ended += event.name in ("completed", "failed")
            if ended == ENDED:
                break

    assert {event.name for event in received} >= {
        "added", "waiting", "active", "progress", "completed", "failed", "retries-exhausted",
        "delayed", "deduplicated", "duplicated",
    }  # fmt: skip
    [progress] = [event for event in received if event.name == "progress"]
    assert progress.data == {"at": "ü"}
    assert [event.failed_reason for event in received if event.name == "failed"] == ["no"]
    assert [1] in [event.result for event in received if event.name == "completed"]


async def test_a_node_producer_waits_for_what_our_handler_returns(
    node6: NodePeer, store: Store
) -> None:
    remote, events = node6.queue("q"), node6.events("q")
    async with Worker("q", Steps(store), store):
        job = await remote.call("add", "work", {"do": [["runFor", 20], ["return", {"sum": 3}]]})
        result = await remote.call_job(job["id"], "waitUntilFinished", events)

    assert result == {"sum": 3}
