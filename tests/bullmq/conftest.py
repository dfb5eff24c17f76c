"""Queues to be moved by hand."""

from collections.abc import AsyncIterator

import pytest

from tests.bullmq.hands import Hands, hands_on
from waystation.bullmq.flows import FlowProducer
from waystation.bullmq.queue import Queue


@pytest.fixture
async def hands(redis_url: str) -> AsyncIterator[Hands]:
    """An empty queue whose every step the test takes itself."""
    async with hands_on(redis_url) as opened:
        yield opened


@pytest.fixture
async def queue(hands: Hands) -> AsyncIterator[Queue]:
    """The same queue as its users have it."""
    async with Queue(hands.keys.name, hands.store) as opened:
        yield opened


@pytest.fixture
async def flows(hands: Hands) -> AsyncIterator[FlowProducer]:
    """Trees of jobs into the same store."""
    async with FlowProducer(hands.store) as opened:
        yield opened
