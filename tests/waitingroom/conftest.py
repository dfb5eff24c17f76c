"""The room in one's hands, on an empty server."""

from collections.abc import AsyncGenerator

import pytest

from tests.waitingroom.hands import Hands, hands_on


@pytest.fixture
async def hands(redis_url: str, no_strays: None) -> AsyncGenerator[Hands]:
    async with hands_on(redis_url) as opened:
        yield opened
