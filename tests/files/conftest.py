"""A harness of a queue of files, and a directory to run the command in."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.files import fleets
from tests.files.harness import Harness, harness_on
from tests.files.shell import Files, files_in, furnish
from tests.support.command import Command


@pytest.fixture
async def harness(redis_url: str, no_strays: None) -> AsyncIterator[Harness]:
    async with harness_on(redis_url) as opened:
        # Whatever a test does with one fleet, another in the same database must not notice.
        before = await fleets.furnish(opened.redis)
        yield opened
        after = await fleets.census(opened.redis)
        # Some empty the whole database.
        assert after in (before, {})
        if after:
            await opened.redis.delete(*after)


@pytest.fixture
def home(tmp_path: Path, redis_url: str) -> Path:
    furnish(tmp_path, redis_url)
    return tmp_path


@pytest.fixture
def run(home: Path) -> Files:
    """`waystation files` as a shell runs it."""
    return files_in(home)


@pytest.fixture
def command(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The same in this process, for whatever loads no handlers."""
    return Command(home, capsys, "files", "--config=files.yaml")


@pytest.fixture
def server(redis_url: str) -> Iterator[Any]:
    """A blocking client of the server."""
    with Redis.from_url(redis_url) as client:
        yield client
