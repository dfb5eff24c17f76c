"""A harness of the waiting room on an empty server."""

from collections.abc import AsyncGenerator

import pytest

from tests.waitingroom.harness import Harness, harness_on


@pytest.fixture
async def harness(redis_url: str, no_strays: None) -> AsyncGenerator[Harness]:
    async with harness_on(redis_url) as opened:
        yield opened
