"""A line of files for every test that asks for one."""

from collections.abc import AsyncIterator

import pytest

from .hands import Hands, hands_on


@pytest.fixture
async def hands(redis_url: str, no_strays: None) -> AsyncIterator[Hands]:
    async with hands_on(redis_url) as opened:
        yield opened
