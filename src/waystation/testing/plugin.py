"""Fixtures for pytest: `waystation_url`, `waystation_sandbox` and `waystation_sync_sandbox`.

pytest finds them once waystation is installed. Tests with `async def` need a plugin that runs them,
such as anyio or pytest-asyncio in their auto mode; plain ones need none.
"""

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from waystation.testing.sandboxes import Sandbox
    from waystation.testing.sync_sandbox import SyncSandbox


@pytest.fixture(scope="session")
def waystation_server() -> Generator[str]:
    """The URL of a server in memory that lives as long as the session."""
    # Imported when it is asked for: pytest loads this module for every test run.
    from waystation.core.store import embedded

    with embedded.ephemeral() as server:
        yield server.url


@pytest.fixture
def waystation_url(waystation_server: str) -> str:
    """The URL of a server that is empty when the test begins."""
    from redis import Redis

    with Redis.from_url(waystation_server) as redis:
        redis.flushall()
    return waystation_server


@pytest.fixture
async def waystation_sandbox(waystation_url: str) -> "AsyncGenerator[Sandbox]":
    """Queues, workers and a clock on a server that is empty when the test begins."""
    from waystation.testing.sync_sandbox import sandbox

    async with sandbox(waystation_url) as opened:
        yield opened


@pytest.fixture
def waystation_sync_sandbox(waystation_url: str) -> "Generator[SyncSandbox]":
    """The same for plain tests, without asyncio."""
    from waystation.testing.sync_sandbox import sandbox

    with sandbox(waystation_url) as opened:
        yield opened
