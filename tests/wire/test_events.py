"""Events written by one side and received by the other."""

import asyncio

from redis.asyncio import Redis

from tests.support.listening import blocked_on, first
from tests.support.patience import LIMIT_S
from tests.wire.node import NodePeer
from waystation.bullmq import QueueEvents, QueueEventsProducer


async def test_we_hear_everything_that_happens_to_a_job_of_node(
    node6: NodePeer, redis_url: str
) -> None:
    async with QueueEvents("mail", redis_url) as events:
        queue = await node6.queue("mail").ready()
        worker = await node6.worker("mail").ready()
        await queue.call("add", "send", {"to": "ada"}, {"jobId": "letter"})
        received = await first(aiter(events), 5)
        await worker.close()

    assert [event.name for event in received] == [
        "added",
        "waiting",
        "active",
        "completed",
        "drained",
    ]
    assert all(event.corrupt is None for event in received)
    assert [event.job_id for event in received] == ["letter"] * 4 + [None]
    assert received[2].prev == "waiting"


async def test_we_wait_for_a_job_that_node_does(node6: NodePeer, redis_url: str) -> None:
    async with QueueEvents("mail", redis_url) as events:
        queue = await node6.queue("mail").ready()
        await queue.call("add", "send", {}, {"jobId": "letter"})
        waiting = asyncio.create_task(events.wait("letter", timeout=60))
        worker = await node6.worker("mail").ready()
        await waiting
        await worker.close()


async def test_node_hears_an_event_of_our_own(
    node6: NodePeer, redis: Redis, redis_url: str
) -> None:
    listening = await node6.events("mail").ready()
    async with QueueEventsProducer("mail", redis_url) as producer:
        await producer.publish("reviewed", {"by": "ann"})
    (entry,) = await listening.until("reviewed")
    assert "ann" in str(entry)


async def test_we_hear_an_event_of_nodes_own(node6: NodePeer, redis_url: str) -> None:
    async with QueueEvents("mail", redis_url) as events:
        producer = await node6.producer("mail").ready()
        await producer.call("publishEvent", {"eventName": "reviewed", "by": "ann"})
        (event,) = await first(aiter(events), 1)
    assert (event.name, event.fields) == ("reviewed", {"by": "ann"})


async def test_node_counts_our_listener(node6: NodePeer, redis: Redis, redis_url: str) -> None:
    queue = await node6.queue("mail").ready()
    async with QueueEvents("mail", redis_url) as events:
        listening = asyncio.create_task(first(aiter(events), 1))
        async with asyncio.timeout(LIMIT_S):
            await blocked_on(redis)
        assert len(await queue.call("getQueueEvents")) == 1
        listening.cancel()
