"""A room that is open, behind its HTTP API."""

from collections.abc import AsyncIterator

import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import RoomService


@pytest.fixture
async def service(redis_url: str, no_strays: None) -> AsyncIterator[RoomService]:
    async with harness.service(redis_url) as built:
        yield built
