"""Queues to be moved by hand."""

from collections.abc import AsyncIterator

import pytest

from tests.bullmq.harness import Harness, harness_on
from waystation.bullmq.flows import FlowProducer
from waystation.bullmq.queue import Queue


@pytest.fixture
async def harness(redis_url: str) -> AsyncIterator[Harness]:
    """An empty queue whose every step the test takes itself."""
    async with harness_on(redis_url) as opened:
        yield opened


@pytest.fixture
async def queue(harness: Harness) -> AsyncIterator[Queue]:
    """The same queue as its users have it."""
    async with Queue(harness.keys.name, harness.store) as opened:
        yield opened


@pytest.fixture
async def flows(harness: Harness) -> AsyncIterator[FlowProducer]:
    """Trees of jobs into the same store."""
    async with FlowProducer(harness.store) as opened:
        yield opened
