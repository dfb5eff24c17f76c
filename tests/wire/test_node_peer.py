import asyncio

import pytest
from redis.asyncio import Redis

from tests.wire.conftest import LATEST
from tests.wire.node import NodeError, NodeGone, NodePeer, NodeProcess, Steps, node


async def test_a_job_added_by_node_is_in_redis(any_node: NodePeer, redis: Redis) -> None:
    job = await any_node.queue("mail").call("add", "send", {"to": "zoë"}, {"attempts": 2})

    assert job["id"] == "1"
    assert await redis.hget("bull:mail:1", "data") == '{"to":"zoë"}'.encode()


async def test_a_worker_records_what_it_ran_and_under_which_token(any_node: NodePeer) -> None:
    queue = any_node.queue("mail")
    await queue.call("add", "send", {"to": "a"})
    worker = any_node.worker("mail")

    (done,) = await worker.until("completed", jobId="1")

    (started,) = await worker.journal(type="started")
    assert done["returnvalue"] == {"to": "a"}
    assert started["data"] == {"to": "a"}
    assert (started["attemptsMade"], started["attemptsStarted"]) == (0, 1)
    assert started["token"]


@pytest.mark.parametrize(
    ("steps", "result"),
    [
        ([["return", {"n": 1}]], {"n": 1}),
        ([["throw", "not yet", 2], ["return", "third"]], "third"),
        ([["moveToDelayed", 5], ["return", "later"]], "later"),
        ([["moveToWait"], ["return", "again"]], "again"),
        ([["rateLimit", 20], ["return", "slower"]], "slower"),
        ([["progress", {"at": 50}], ["log", "half way"], ["runFor", 5]], None),
        ([["updateData", {"new": True}], ["extendLock", 1000], ["echo"]], {"new": True}),
    ],
)
async def test_a_job_says_what_its_worker_does(
    any_node: NodePeer, steps: Steps, result: object
) -> None:
    queue = any_node.queue("mail")
    await queue.call("add", "send", {"do": steps}, {"attempts": 3})
    worker = any_node.worker("mail", limiter={"max": 100, "duration": 10})

    (done,) = await worker.until("completed")

    assert done["returnvalue"] == result


async def test_an_unrecoverable_throw_ends_a_job_that_has_attempts_left(any_node: NodePeer) -> None:
    await any_node.queue("mail").call("add", "send", {}, {"attempts": 5})
    worker = any_node.worker("mail", {"send": [["unrecoverable", "no such address"]]})

    (failed,) = await worker.until("failed")

    assert failed["failedReason"] == "no such address"
    assert failed["finished"] is True


async def test_a_job_may_add_children_and_wait_for_them(any_node: NodePeer) -> None:
    child = {"queue": "parts", "name": "part", "data": {"n": 7}}
    parent = any_node.worker("whole", {"*": [["waitForChildren", [child]], ["childrenValues"]]})
    any_node.worker("parts")
    await any_node.queue("whole").call("add", "whole", {})

    (done,) = await parent.until("completed")

    assert done["returnvalue"] == {"bull:parts:1": {"n": 7}}


async def test_custom_backoffs_come_from_a_list(any_node: NodePeer, redis: Redis) -> None:
    options = {"attempts": 3, "backoff": {"type": "custom"}}
    await any_node.queue("mail").call("add", "send", {"do": [["throw", "no"]]}, options)
    worker = any_node.worker("mail", backoff=[3_600_000])

    await worker.until("failed")

    assert await redis.hget("bull:mail:1", "delay") == b"3600000"


async def test_events_are_recorded_once_each_from_the_start_of_the_stream(
    any_node: NodePeer,
) -> None:
    await any_node.queue("mail").call("add", "send", {})
    any_node.worker("mail", {"*": [["progress", 10], ["return", [1, 2]]]})
    events = any_node.events("mail")

    await events.until("drained")

    types = [entry["type"] for entry in await events.journal()]
    assert types == ["added", "waiting", "active", "progress", "completed", "drained"]
    (completed,) = await events.journal(type="completed")
    assert completed["returnvalue"] == [1, 2]


async def test_custom_events_reach_a_listener(any_node: NodePeer) -> None:
    events = any_node.events("mail")
    producer = any_node.producer("mail")
    await producer.call("publishEvent", {"eventName": "greeting", "text": "hello"})

    (entry,) = await events.until("greeting")

    assert entry["text"] == "hello"


async def test_a_method_may_be_handed_another_open_object(any_node: NodePeer) -> None:
    queue, events = any_node.queue("mail"), any_node.events("mail")
    await events.ready()
    any_node.worker("mail")
    await queue.call("add", "send", {"n": 1}, {"jobId": "one"})

    assert await queue.call_job("one", "waitUntilFinished", events, 5000) == {"n": 1}


async def test_polling_returns_when_the_answer_matches(any_node: NodePeer) -> None:
    queue = any_node.queue("mail")
    await queue.call("add", "send", {})
    any_node.worker("mail")

    counts = await queue.poll("getJobCounts", "completed", "wait", gives={"completed": 1})

    assert counts == {"completed": 1, "wait": 0}


async def test_what_node_throws_is_an_error_with_its_name(any_node: NodePeer) -> None:
    with pytest.raises(NodeError, match="Custom Id cannot be integers"):
        await any_node.queue("mail").call("add", "send", {}, {"jobId": "7"})
    with pytest.raises(NodeError, match="has no polish"):
        await any_node.queue("mail").call("polish")
    with pytest.raises(NodeError, match="nothing to ask retry"):
        await any_node.queue("mail").call_job("missing", "retry")


async def test_what_cannot_be_opened_says_so_when_it_is_used(any_node: NodePeer) -> None:
    queue = any_node.queue("a:b")

    with pytest.raises(NodeError, match="cannot contain :"):
        await queue.call("count")


async def test_what_found_no_server_can_still_be_closed(
    node6_process: NodeProcess,
) -> None:
    async with NodePeer(node6_process, "redis://127.0.0.1:1") as peer:
        worker = peer.worker("mail")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await worker.ready()


async def test_waiting_for_what_never_happens_tells_what_did(any_node: NodePeer) -> None:
    events = any_node.events("mail")
    await any_node.queue("mail").call("add", "send", {})
    await events.until("waiting")

    with pytest.raises(NodeError, match=r'(?s)saw 0.*"type":"waiting"'):
        await events.until("completed", within=0.05)


async def test_a_megabyte_travels_there_and_back(any_node: NodePeer) -> None:
    text = "ü" * 500_000
    await any_node.queue("mail").call("add", "send", {"text": text})
    worker = any_node.worker("mail")

    (done,) = await worker.until("completed")

    assert done["returnvalue"] == {"text": text}


async def test_a_closed_worker_has_finished_its_job(any_node: NodePeer, redis: Redis) -> None:
    await any_node.queue("mail").call("add", "send", {"do": [["runFor", 50], ["return", 1]]})
    worker = any_node.worker("mail")
    await worker.until("started")

    await worker.close()

    assert await redis.zcard("bull:mail:completed") == 1


async def test_a_killed_peer_leaves_its_job_active_and_locked(redis: Redis, redis_url: str) -> None:
    async with node(LATEST, redis_url) as peer:
        await peer.queue("mail").call("add", "send", {"do": [["never"]]})
        await peer.worker("mail").until("started")

        await peer.kill()

        with pytest.raises(NodeGone):
            await peer.queue("mail").call("count")
    assert await redis.lrange("bull:mail:active", 0, -1) == [b"1"]
    assert await redis.exists("bull:mail:1:lock")
