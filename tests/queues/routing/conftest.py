"""The line in one's hands, on an empty server."""

from collections.abc import AsyncGenerator

import pytest

from .bridge import Bridge
from .hands import Hands, hands_on


@pytest.fixture
async def hands(redis_url: str, no_strays: None) -> AsyncGenerator[Hands]:
    async with hands_on(redis_url) as opened:
        yield opened


@pytest.fixture
def literal(hands: Hands) -> Bridge:
    """The document's own scripts, on keys of their own."""
    return Bridge(hands.redis, literal=True, namespace="literal")
