"""An empty store for each stop of the tour."""

from collections.abc import AsyncIterator

import pytest

from waystation.core.store.connection import Store, connect


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    async with await connect(redis_url) as opened:
        yield opened
