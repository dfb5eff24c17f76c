"""Our own BullMQ, put through the scenarios that Node's is put through."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire.scenario import Job, Json, Options, Tree
from tests.wire.spelling import job_options, keywords, schedule, worker_options
from tests.wire.steps import Steps
from waystation.bullmq import FlowNode, FlowProducer, NewJob, Queue, Worker
from waystation.core.store.connection import Store, connect

IDLE_WITHIN = LIMIT_S

# These take a JSON value, which is not to be taken for keywords.
TAKE_A_VALUE = {"update_data", "update_progress"}


@asynccontextmanager
async def our_side(url: str) -> AsyncGenerator["OurSide"]:
    """Our side on the database of this address."""
    async with (
        await connect(url) as store,
        Redis.from_url(url, protocol=2) as redis,
        AsyncExitStack() as opened,
    ):
        yield OurSide(store, redis, opened)


class OurSide:
    """Our queues, workers and flows on one database."""

    def __init__(self, store: Store, redis: Redis, opened: AsyncExitStack) -> None:
        self._store = store
        self._redis = redis
        self._opened = opened
        self._queues: dict[str, Queue] = {}

    async def add(self, queue: str, job: Job) -> None:
        await self.add_many(queue, [job])

    async def add_many(self, queue: str, jobs: Sequence[Job]) -> None:
        rows = [NewJob(job.name, job.data, job_options(job.options)) for job in jobs]
        await (await self._queue(queue)).add_many(rows)

    async def add_flow(self, tree: Tree) -> None:
        async with FlowProducer(self._store) as flow:
            await flow.add(_node(tree))

    async def work(self, queue: str, *, outcomes: int, options: Options) -> None:
        ended = asyncio.Semaphore(0)
        worker = Worker(queue, Steps(self._store), self._store, **worker_options(options))
        worker.on("completed", lambda job, result: ended.release())
        worker.on("failed", lambda job, error: ended.release())
        async with asyncio.timeout(IDLE_WITHIN), worker:
            for _ in range(outcomes):
                await ended.acquire()
            while await self._redis.exists(f"bull:{queue}:marker"):
                await asyncio.sleep(0.005)
        # As it closes, a worker of ours puts back when the next job is due; Node's does not.
        await self._redis.zrem(f"bull:{queue}:marker", "1")

    async def abandon(self, queue: str, *, jobs: int, options: Options) -> None:
        begun = asyncio.Semaphore(0)
        worker = Worker(queue, Steps(self._store), self._store, **worker_options(options))
        worker.on("active", lambda job: begun.release())
        await worker.start()
        async with asyncio.timeout(IDLE_WITHIN):
            for _ in range(jobs):
                await begun.acquire()
        await worker.close(force=True)

    async def on_queue(self, queue: str, verb: str, args: Sequence[Json]) -> None:
        # A queue is paused the way of the BullMQ that has opened it, and Node's opens it here.
        await self._redis.hset(f"bull:{queue}:meta", "version", "bullmq:6.7.0")  # pyright: ignore[reportGeneralTypeIssues]
        await _on_queue(await self._queue(queue), verb, args)

    async def on_job(self, queue: str, job_id: str, verb: str, args: Sequence[Json]) -> None:
        job = await (await self._queue(queue)).get_job(job_id)
        assert job, f"there is no job {job_id} in {queue}"
        if verb == "change_delay":
            await job.change_delay(args[0] / 1000)
        else:
            await _call(job, verb, args)

    async def _queue(self, name: str) -> Queue:
        if name not in self._queues:
            opened = await self._opened.enter_async_context(Queue(name, self._store))
            self._queues[name] = opened
        return self._queues[name]


async def _call(thing: Any, verb: str, args: Sequence[Json]) -> None:
    """Call a method; an object at the end of the arguments holds keywords."""
    if args and isinstance(args[-1], dict) and verb not in TAKE_A_VALUE:
        await getattr(thing, verb)(*args[:-1], **keywords(cast(Options, args[-1])))
    else:
        await getattr(thing, verb)(*args)


async def _upsert(queue: Queue, scheduler_id: str, times: Options, template: Options) -> None:
    await queue.schedulers.upsert(
        scheduler_id,
        schedule(times),
        name=template["name"],
        data=template.get("data"),
        options=job_options(template.get("opts", {})),
    )


async def _on_queue(queue: Queue, verb: str, args: Sequence[Json]) -> None:
    """Call a method by BullMQ's name, whose parameters, or place, may be others here."""
    match verb, *args:
        case "upsert_job_scheduler", id, times, template:
            await _upsert(queue, id, times, template)
        case "remove_job_scheduler", id:
            await queue.schedulers.remove(id)
        case "set_global_concurrency", most:
            await queue.limits.set_concurrency(most)
        case ("remove_global_concurrency",):
            await queue.limits.remove_concurrency()
        case "set_global_rate_limit", max, ms:
            await queue.limits.set_rate_limit(max, ms / 1000)
        case ("remove_global_rate_limit",):
            await queue.limits.remove_rate_limit()
        case "rate_limit", ms:
            await queue.limits.rate_limit(ms / 1000)
        case "clean", ms, limit, state:
            await queue.clean(ms / 1000, limit, state)
        case "retry_jobs", given:
            await queue.retry_all(given["state"])
        case "promote_jobs", _:
            await queue.promote_all()
        case _:
            await _call(queue, verb, args)


def _node(tree: Tree) -> FlowNode:
    return FlowNode(
        name=tree.job.name,
        queue=tree.queue,
        data=tree.job.data,
        options=job_options(tree.job.options),
        children=[_node(child) for child in tree.children],
    )
