"""A console for every test that asks for one."""

from collections.abc import AsyncIterator

import pytest

from tests.console import hands
from tests.console.hands import Desk


@pytest.fixture
async def desk(redis_url: str, no_strays: None) -> AsyncIterator[Desk]:
    """A console whose user may do everything."""
    async with hands.desk(redis_url) as opened:
        yield opened


@pytest.fixture
async def guarded(redis_url: str, no_strays: None) -> AsyncIterator[Desk]:
    """A console that asks everybody for a key."""
    async with hands.desk(redis_url, hands.SIGN_IN) as opened:
        yield opened
