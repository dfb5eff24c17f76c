"""A real server for every test that asks for one; async tests need no mark."""

import inspect
import logging
import os
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache

import pytest
from hypothesis import settings
from redis import Redis as BlockingRedis
from redis import utils
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tests.support.census import strays
from tests.support.patience import limit, until
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.keyspace import Keyspace
from waystation.core.telemetry import logs

# redis-py reads its version from the disk for every connection, and tests open tens of thousands.
utils.get_lib_version = cache(utils.get_lib_version)

TEST_URL = "WAYSTATION_TEST_URL"

# How long an example takes says more about the machine than about the code. `make test` tries the
# same few examples every time; `make long` searches for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None, max_examples=20)
settings.register_profile("search", deadline=None, max_examples=150)
settings.load_profile("fixed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    usual = float(config.getini("timeout"))
    for item in items:
        marker = item.get_closest_marker("timeout")
        seconds = max(usual, float(marker.args[0]) if marker else 0)
        item.add_marker(pytest.mark.timeout(limit(seconds)), append=False)
    # The files that take longest begin first, so that no worker is left alone with one at the end.
    items.sort(key=lambda item: "pipeline" not in item.path.parts)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> None:
    if collector.istestfunction(obj, name):
        inner = getattr(getattr(obj, "hypothesis", None), "inner_test", obj)
        if inspect.iscoroutinefunction(inner):
            pytest.mark.anyio(obj)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # Tests log halves of characters, which cannot travel from a worker of xdist to its master.
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """What a test says about logging holds for that test alone."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logs.configure()
    root.handlers, root.level = handlers, level


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The server all tests share; it may hold anything, so most want `redis` or `redis_url`."""
    if url := os.environ.get(TEST_URL):
        yield url
    else:
        with embedded.ephemeral() as server:
            yield server.url


@pytest.fixture
def redis_url(server_url: str) -> str:
    """The address of an empty database."""
    with BlockingRedis.from_url(server_url) as client:
        client.flushdb()
    return server_url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    """A client of an empty database."""
    client = Redis.from_url(redis_url, protocol=2, retry=Retry(NoBackoff(), 0))
    yield client
    await client.aclose()


@pytest.fixture
async def no_strays(redis: Redis) -> AsyncIterator[None]:
    """Fail a test that leaves a key undeclared, of another type, or without the TTL it needs."""
    yield
    spaces = [each for each in Keyspace.declared() if each.__module__.startswith("waystation.")]
    assert [sentence async for sentence in strays(redis, *spaces)] == []


@pytest.fixture
async def cluster_url() -> AsyncIterator[str]:
    """The address of a cluster of one node."""
    with embedded.cluster_node() as node:
        async with await connect(node.url) as store:
            ask = store.hot.execute_command
            await ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)

            async def is_up() -> bool:
                return b"cluster_state:ok" in await ask("CLUSTER", "INFO")

            await until(is_up)
        yield node.url.replace("redis:", "redis+cluster:")


@pytest.fixture
def own_server() -> Iterator[Ephemeral]:
    """A server that the test may kill, freeze or set up as it likes."""
    with embedded.ephemeral() as server:
        yield server
