"""Node peers for the wire tests: a process per release and session, a fresh view per test."""

import os
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import pytest
from redis.asyncio import Redis

from tests.wire.install import NodeUnavailable
from tests.wire.node import NodePeer, NodeProcess
from waystation.bullmq import Queue
from waystation.core.store.connection import Store, connect

LATEST = "6.7.0"
LAST_V5 = "5.81.5"


async def started(version: str) -> NodeProcess:
    """A running release; without Node a skipped test, but a failed one where CI is set."""
    try:
        return await NodeProcess.start(version)
    except NodeUnavailable as unavailable:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the cross tests must run here: {unavailable}", pytrace=False)
        print(f"no cross tests with Node BullMQ {version}: {unavailable}")
        pytest.skip(str(unavailable))


@pytest.fixture(scope="session")
async def node6_process() -> AsyncIterator[NodeProcess]:
    async with await started(LATEST) as process:
        yield process


@pytest.fixture(scope="session")
async def node5_process() -> AsyncIterator[NodeProcess]:
    async with await started(LAST_V5) as process:
        yield process


@pytest.fixture
async def node6(node6_process: NodeProcess, redis_url: str) -> AsyncIterator[NodePeer]:
    """The newest BullMQ on the test's database; do not kill it, others use its process."""
    async with NodePeer(node6_process, redis_url) as peer:
        yield peer


@pytest.fixture
async def node5(node5_process: NodeProcess, redis_url: str) -> AsyncIterator[NodePeer]:
    """The last BullMQ of the fifth generation, likewise."""
    async with NodePeer(node5_process, redis_url) as peer:
        yield peer


@pytest.fixture(params=[LATEST, LAST_V5])
def any_node(request: pytest.FixtureRequest) -> NodePeer:
    """Each release in turn."""
    return request.getfixturevalue("node6" if request.param == LATEST else "node5")


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    """Our way to the test's database."""
    async with await connect(redis_url) as opened:
        yield opened


@pytest.fixture
async def queue(store: Store) -> AsyncIterator[Queue]:
    """Our queue, which Node knows as `q`."""
    async with Queue("q", store) as opened:
        yield opened


@pytest.fixture
async def second_url(server_url: str) -> AsyncIterator[str]:
    """Another empty database of the same server."""
    first = urlsplit(server_url)
    url = urlunsplit(first._replace(path="/2" if first.path == "/1" else "/1"))
    async with Redis.from_url(url, protocol=2) as client:
        await client.flushdb()
        yield url
        await client.flushdb()
