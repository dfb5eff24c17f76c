"""Additions that count only when a replica has them, on two servers."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.listening import blocked_on
from waystation import bullmq, files, routing
from waystation.bullmq.flows import FlowNode, FlowProducer
from waystation.core.errors import InvalidOption, InvalidSetting, NotReplicated, WrongType
from waystation.core.store import embedded
from waystation.core.store.connection import Store, StoreOptions, connect
from waystation.core.store.connection.address import parse
from waystation.core.store.connection.store import Durability
from waystation.core.store.embedded import Ephemeral
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile

ON_TWO = StoreOptions(durability=Durability.REPLICA, replica_timeout=20.0)
IMPATIENT = StoreOptions(durability=Durability.REPLICA, replica_timeout=0.05)


@pytest.fixture
def primary() -> Iterator[Ephemeral]:
    """A server that gives itself to a replica at once."""
    with embedded.ephemeral({"repl-diskless-sync-delay": "0"}) as server:
        yield server


@pytest.fixture(scope="module")
async def pair() -> AsyncIterator[tuple[Ephemeral, Ephemeral]]:
    """A server and its replica, which tests share that break neither."""
    with embedded.ephemeral({"repl-diskless-sync-delay": "0"}) as primary:
        async with followed(primary) as replica:
            yield primary, replica


@pytest.fixture
async def replica(primary: Ephemeral) -> AsyncIterator[Ephemeral]:
    async with followed(primary) as server:
        yield server


@contextlib.asynccontextmanager
async def followed(primary: Ephemeral) -> AsyncGenerator[Ephemeral]:
    """A second server that follows the first."""
    with embedded.ephemeral() as server:
        async with client(server) as redis:
            await redis.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        async with client(primary) as redis:
            await redis.set("first", "1")
            assert await redis.execute_command("WAIT", 1, 20_000) == 1
        yield server


@contextlib.asynccontextmanager
async def client(server: Ephemeral) -> AsyncGenerator[Any]:
    async with Redis.from_url(server.url, protocol=2) as redis:
        yield redis


async def add_a_job(store: Store) -> list[str]:
    async with bullmq.Queue("mail", store) as queue:
        job = await queue.add("send", {"to": "ada"})
        return [f"bull:mail:{job.id}"]


async def add_many_jobs(store: Store) -> list[str]:
    async with bullmq.Queue("mail", store) as queue:
        jobs = await queue.add_many(("send", n) for n in range(600))
        return [f"bull:mail:{job.id}" for job in jobs]


async def add_a_flow(store: Store) -> list[str]:
    async with FlowProducer(store) as flows:
        child = FlowNode(name="cut", queue="paper")
        tree = await flows.add(FlowNode(name="print", queue="mail", children=[child]))
        return [f"bull:mail:{tree.job.id}", f"bull:paper:{tree.children[0].job.id}"]


async def dispatch(store: Store) -> list[str]:
    async with routing.Queue(store) as queue:
        return [queue.keys.of((await queue.add("render", {"scene": 7})).id).status]


async def put_a_file_in_line(store: Store) -> list[str]:
    queue = files.Queue(store)
    file = ScannedFile("/a.pdf", 1, 1)
    await queue.intake.put([entry(queue.keys, file, priority="low", now_ns=1)])
    return [queue.keys.queues[-1]]


async def upsert_a_scheduler(store: Store) -> list[str]:
    async with bullmq.Queue("mail", store) as queue:
        await queue.schedulers.upsert("nightly", bullmq.Schedule(every=3600))
        return ["bull:mail:repeat:nightly"]


async def signal_a_job(store: Store) -> list[str]:
    plain = await connect(str(store.address))
    async with plain, bullmq.Queue("mail", plain) as queue:
        job = await queue.add("send", {})
    async with bullmq.Queue("mail", store) as queue:
        await queue.signal(job.id, "paid")
        return [f"bull:mail:{job.id}"]


ADDITIONS = [
    add_a_job,
    add_many_jobs,
    add_a_flow,
    dispatch,
    put_a_file_in_line,
    upsert_a_scheduler,
    signal_a_job,
]


@pytest.mark.parametrize("add", ADDITIONS)
async def test_what_was_added_is_on_the_replica_at_once(
    pair: tuple[Ephemeral, Ephemeral], add: Any
) -> None:
    primary, replica = pair
    async with await connect(primary.url, ON_TWO) as store, client(replica) as redis:
        await store.hot.execute_command("FLUSHALL")
        keys = await add(store)
        primary.freeze()
        try:
            assert await redis.exists(*keys) == len(keys)
        finally:
            primary.thaw()


@pytest.mark.parametrize("add", ADDITIONS)
async def test_without_a_replica_the_error_says_what_was_stored(
    redis_url: str, redis: Redis, add: Any
) -> None:
    async with await connect(redis_url, IMPATIENT) as store:
        with pytest.raises(NotReplicated, match="no replica confirmed it within 50 ms") as caught:
            await add(store)
        assert "adds nothing twice where the job has an id" in str(caught.value)
        assert caught.value.stored
        assert await redis.dbsize() > 0


async def test_the_ids_of_what_was_stored_are_known(redis_url: str) -> None:
    store = await connect(redis_url, IMPATIENT)
    async with store, bullmq.Queue("mail", store) as queue:
        with pytest.raises(NotReplicated, match=r"stored: \['1', '2', '3'\]") as caught:
            await queue.add_many(("send", n) for n in range(3))
        assert caught.value.stored == ["1", "2", "3"]
        assert len(await queue.get_jobs("waiting")) == 3


async def test_a_replica_that_is_gone_is_missed(primary: Ephemeral, replica: Ephemeral) -> None:
    async with await connect(primary.url, ON_TWO) as store:
        await add_a_job(store)
    replica.kill()
    async with await connect(primary.url, IMPATIENT) as store:
        with pytest.raises(NotReplicated):
            await add_a_job(store)


async def test_a_producer_that_waits_for_a_replica_keeps_nobody_else_waiting(
    redis_url: str, redis: Redis
) -> None:
    async with await connect(redis_url, ON_TWO) as store:
        adding = asyncio.create_task(add_a_job(store))
        await blocked_on(redis)
        assert await store.hot.execute_command("PING") == b"PONG"
        assert not adding.done()
        adding.cancel()
        await asyncio.wait([adding])


async def test_many_who_add_at_once_wait_together(pair: tuple[Ephemeral, Ephemeral]) -> None:
    primary, _ = pair
    store = await connect(primary.url, ON_TWO)
    async with store, client(primary) as redis, bullmq.Queue("mail", store) as queue:
        await redis.flushall()
        before = (await redis.info("commandstats"))["cmdstat_wait"]["calls"]
        await asyncio.gather(*(queue.add("send", number) for number in range(200)))
        after = (await redis.info("commandstats"))["cmdstat_wait"]["calls"]
        assert await queue.count() == 200
    assert after - before < 50


async def test_a_refusal_is_told_before_anything_about_replicas(redis_url: str) -> None:
    async with await connect(redis_url, IMPATIENT) as store:
        await store.hot.execute_command("SET", "bull:mail:wait", "not a list")
        with pytest.raises(WrongType, match="bull:mail:wait must hold a list"):
            await add_a_job(store)


async def test_nobody_waits_unless_asked_to(redis_url: str) -> None:
    async with await connect(redis_url) as store:
        assert store.durable is store.hot


def test_a_cluster_cannot_be_asked_for_a_replica() -> None:
    with pytest.raises(InvalidOption, match="needs one server or sentinels, got a cluster"):
        Store(parse("redis+cluster://127.0.0.1:7000"), ON_TWO)


async def test_the_environment_asks_for_a_replica(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__DURABILITY", "replica")
    async with bullmq.Queue("mail", redis_url) as queue:
        with pytest.raises(NotReplicated):
            await queue.add("send")
    monkeypatch.setenv("WAYSTATION_STORE__DURABILITY", "paper")
    with pytest.raises(InvalidSetting, match="wants 'primary' or 'replica', got 'paper'"):
        async with bullmq.Queue("mail", redis_url):
            pass


async def test_durability_is_one_of_two_words(redis_url: str) -> None:
    text: Any = "primary"
    async with await connect(redis_url, StoreOptions(durability=text)) as store:
        await add_a_job(store)
    other: Any = "nonsense"
    with pytest.raises(InvalidOption, match="must be one of primary, replica, got 'nonsense'"):
        StoreOptions(durability=other)
