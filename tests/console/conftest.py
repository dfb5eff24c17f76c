"""A console for every test that asks for one."""

from collections.abc import AsyncIterator

import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi


@pytest.fixture
async def api(redis_url: str, no_strays: None) -> AsyncIterator[ConsoleApi]:
    """A console whose user may do everything."""
    async with harness.api(redis_url) as opened:
        yield opened


@pytest.fixture
async def guarded(redis_url: str, no_strays: None) -> AsyncIterator[ConsoleApi]:
    """A console that asks everybody for a key."""
    async with harness.api(redis_url, harness.SIGN_IN) as opened:
        yield opened
