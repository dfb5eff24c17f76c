"""The implementations that can be put through a scenario."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire.node import NodePeer, Remote
from tests.wire.scenario import Job, Json, Options, Tree

IDLE_WITHIN = LIMIT_S


class NodeSide:
    """Node's BullMQ on one database; the client is of the same one."""

    def __init__(self, peer: NodePeer, redis: Redis) -> None:
        self._peer = peer
        self._redis = redis
        self._queues: dict[str, Remote] = {}

    async def add(self, queue: str, job: Job) -> None:
        await self._queue(queue).call("add", job.name, job.data, job.options)

    async def add_many(self, queue: str, jobs: Sequence[Job]) -> None:
        rows = [{"name": job.name, "data": job.data, "opts": job.options} for job in jobs]
        await self._queue(queue).call("addBulk", rows)

    async def add_flow(self, tree: Tree) -> None:
        flow = self._peer.flow()
        await flow.call("add", _node_tree(tree))
        await flow.close()

    async def work(self, queue: str, *, outcomes: int, options: Options) -> None:
        worker = self._peer.worker(queue, **options)
        await worker.until(["completed", "failed"], count=outcomes)
        await self._idle(queue)
        await worker.close()

    async def abandon(self, queue: str, *, jobs: int, options: Options) -> None:
        worker = self._peer.worker(queue, **options)
        await worker.until("started", count=jobs)
        await worker.close(force=True)

    async def on_queue(self, queue: str, verb: str, args: Sequence[Json]) -> None:
        await self._queue(queue).call(_camel(verb), *args)
        if verb == "promote_jobs":
            # Node leaves the delay that no longer counts, and a parent would wait for it again.
            for job in await self._queue(queue).call("getJobs", ["wait", "prioritized"]):
                await self._redis.hset(f"bull:{queue}:{job['id']}", "delay", 0)  # pyright: ignore[reportGeneralTypeIssues]

    async def on_job(self, queue: str, job_id: str, verb: str, args: Sequence[Json]) -> None:
        await self._queue(queue).call_job(job_id, _camel(verb), *args)

    def _queue(self, name: str) -> Remote:
        if name not in self._queues:
            self._queues[name] = self._peer.queue(name)
        return self._queues[name]

    async def _idle(self, queue: str) -> None:
        """Wait until the worker has taken the last marker, which says that it found nothing."""
        async with asyncio.timeout(IDLE_WITHIN):
            while await self._redis.exists(f"bull:{queue}:marker"):
                await asyncio.sleep(0.005)


def _node_tree(tree: Tree) -> dict[str, Any]:
    return {
        "name": tree.job.name,
        "queueName": tree.queue,
        "data": tree.job.data,
        "opts": tree.job.options,
        "children": [_node_tree(child) for child in tree.children],
    }


def _camel(verb: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), verb)
