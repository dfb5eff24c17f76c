"""A harness, a queue and a flow producer on an empty server."""

from collections.abc import AsyncIterator

import pytest

from tests.bullmq.harness import Harness, harness_on
from waystation.bullmq.flows import FlowProducer
from waystation.bullmq.queue import Queue


@pytest.fixture
async def harness(redis_url: str) -> AsyncIterator[Harness]:
    """A harness of an empty queue."""
    async with harness_on(redis_url) as opened:
        yield opened


@pytest.fixture
async def queue(harness: Harness) -> AsyncIterator[Queue]:
    """The same queue through its public class."""
    async with Queue(harness.keys.name, harness.store) as opened:
        yield opened


@pytest.fixture
async def flows(harness: Harness) -> AsyncIterator[FlowProducer]:
    """A flow producer on the same store."""
    async with FlowProducer(harness.store) as opened:
        yield opened
