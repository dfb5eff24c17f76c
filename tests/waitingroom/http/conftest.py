"""A room with its doors open."""

from collections.abc import AsyncIterator

import pytest

from tests.waitingroom.http import hands
from tests.waitingroom.http.hands import House


@pytest.fixture
async def house(redis_url: str, no_strays: None) -> AsyncIterator[House]:
    async with hands.house(redis_url) as built:
        yield built
