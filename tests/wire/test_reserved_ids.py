"""A job of Node's that is called like one of the queue's own keys, among others.

Our producers refuse such an id; a Node producer stores the job where the queue keeps something
else. What can run then is up to the key; no job may leave every list.
"""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire.node import NodeError, NodePeer
from waystation.bullmq import Job, Worker
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.errors import WrongType
from waystation.core.store.connection import Store

KEYS = QueueKeys("q")
MANY = 30
NAMES = (
    *("stalled", "completed", "active", "wait", "prioritized", "delayed", "failed", "meta"),
    *("events", "marker", "id", "pc", "limiter", "paused", "waiting-children"),
)
STATES = ("wait", "active", "prioritized", "delayed", "completed", "failed")


async def members(redis: Redis, name: str) -> set[str]:
    """Who is in a list or set; nobody, when the key holds something else."""
    key = f"{KEYS.base}{name}"
    found: Any = []
    match await redis.type(key):
        case b"list":
            found = await redis.lrange(key, 0, -1)
        case b"zset":
            found = await redis.zrange(key, 0, -1)
        case _:
            pass
    return {id.decode() for id in found}


async def nowhere(redis: Redis, ids: set[str]) -> set[str]:
    """Those that are in no list and no set."""
    # In the order in which jobs move, so that none is missed that moves meanwhile.
    for state in STATES:
        ids = ids - await members(redis, state)
    return ids


async def added(node: NodePeer, *ids: str) -> set[str]:
    """Add jobs of these ids; none when one of the keys is too much for Node itself."""
    rows = [{"name": "work", "data": {}, "opts": {"jobId": id}} for id in ids]
    try:
        await node.queue("q").call("addBulk", rows)
    except NodeError as error:
        if "WRONGTYPE" not in error.message:
            raise
        return set()
    return set(ids)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
async def test_no_job_is_lost(
    any_node: NodePeer, store: Store, redis: Redis, name: str, is_first: bool
) -> None:
    if is_first:
        await added(any_node, name)
    ids = await added(any_node, *(f"job-{n}" for n in range(MANY)))
    if not is_first:
        await added(any_node, name)

    ran: set[str] = set()
    errors: list[BaseException] = []

    async def handle(job: Job) -> None:
        ran.add(job.id)

    worker = Worker("q", handle, store, concurrency=3)
    worker.on("error", errors.append)
    async with worker:
        async with asyncio.timeout(LIMIT_S):
            while len(errors) < 2 and not ids <= await members(redis, "completed"):
                await asyncio.sleep(0.01)
        assert {type(error) for error in errors} <= {WrongType}
        assert await nowhere(redis, ids) == set()

        if errors:
            await redis.delete(f"{KEYS.base}{name}")
        async with asyncio.timeout(LIMIT_S):
            while not ids <= await members(redis, "completed"):
                await asyncio.sleep(0.01)
    assert ids <= ran
