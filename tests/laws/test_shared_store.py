"""One store for many queues and workers: a handful of connections, whatever their number."""

import asyncio

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.bullmq import FlowNode, FlowProducer, Queue, Worker, open_store
from waystation.core.errors import StoreUnreachable

HANDFUL = 5


async def connections(redis: Redis) -> int:
    """How many there are besides the one that asks."""
    return len(await redis.client_list()) - 1


async def test_two_thousand_queues_take_a_handful_of_connections(
    redis: Redis, redis_url: str
) -> None:
    async with asyncio.timeout(LIMIT_S), await open_store(redis_url) as store:
        before = await connections(redis)
        queues = [Queue(f"tenant-{n}", store) for n in range(2000)]
        jobs = await asyncio.gather(*(queue.add("work", {"n": 1}) for queue in queues))

        assert {job.id for job in jobs} == {"1"}
        assert await connections(redis) - before <= HANDFUL
        for queue in queues:
            await queue.close()
        assert await Queue("tenant-7", store).count() == 1


async def test_a_worker_brings_two_connections_to_a_shared_store(
    redis: Redis, redis_url: str
) -> None:
    many = 20
    async with asyncio.timeout(LIMIT_S), await open_store(redis_url) as store:
        before = await connections(redis)
        workers = [
            Worker(f"tenant-{n}", lambda job: job.data, store, renew=0.001) for n in range(many)
        ]
        for worker in workers:
            await worker.start()
        jobs = [await Queue(f"tenant-{n}", store).add("work", n) for n in range(many)]

        assert [await job.wait() for job in jobs] == list(range(many))
        assert await connections(redis) - before <= 2 * many + HANDFUL
        await asyncio.gather(*(worker.close() for worker in workers))


async def test_everything_that_works_on_a_store_shares_it_and_leaves_it_open(
    redis: Redis, redis_url: str
) -> None:
    before = await connections(redis)
    async with await bullmq.open_store(redis_url) as store:
        async with (
            Queue("mail", store) as queue,
            FlowProducer(store) as flows,
            routing.Queue(store) as routed,
            files.Queue(store) as scanned,
        ):
            await queue.add("send")
            await flows.add(FlowNode(name="send", queue="mail"))
            await routed.add("send", {})
            await scanned.lengths()
            assert await connections(redis) - before <= HANDFUL

        assert await Queue("mail", store).count() == 2
    with pytest.raises(StoreUnreachable):
        await Queue("mail", store).count()


async def test_without_a_url_it_is_the_store_of_the_environment(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    async with await open_store() as store:
        await Queue("mail", store).add("send")
    async with Queue("mail", redis_url) as queue:
        assert await queue.count() == 1
