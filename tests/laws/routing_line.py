"""The routing line, under the laws."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from tests.laws.line import Line, State
from tests.routing.harness import Harness, harness_on
from waystation.core.runtime.claim import Source
from waystation.routing.options import BackoffRule, Retry

_STATES: dict[str | None, State] = {
    "waiting": "waiting",
    "active": "active",
    "completed": "completed",
    "delayed": "delayed",
    "dead": "failed",
}


class RoutingLine:
    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._workers = 0

    async def add(self, *, attempts: int = 1, backoff_ms: int = 0) -> str:
        backoff = BackoffRule(type="fixed", delay=backoff_ms / 1000)
        return await self._harness.add(retry=Retry(attempts=attempts, backoff=backoff))

    def source(self) -> Source[Any]:
        self._workers += 1
        return self._harness.source(f"w{self._workers}")

    async def state(self, id: str) -> State:
        return _STATES[await self._harness.queue.state(id)]

    async def pass_time(self, ms: int) -> None:
        await self._harness.clock.advance(ms / 1000)

    async def lapse_leases(self) -> None:
        await self._harness.lapse()


@contextlib.asynccontextmanager
async def routing_line(url: str) -> AsyncGenerator[Line]:
    async with harness_on(url) as harness:
        yield RoutingLine(harness)
