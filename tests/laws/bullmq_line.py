"""The bullmq line, under the laws."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from tests.bullmq.harness import Harness, harness_on
from tests.laws.line import Line, State
from waystation.core.runtime.claim import Source

_STATES: dict[str, State] = {
    "wait": "waiting",
    "prioritized": "waiting",
    "delayed": "delayed",
    "active": "active",
    "completed": "completed",
    "failed": "failed",
}


class BullLine:
    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    async def add(self, *, attempts: int = 1, backoff_ms: int = 0) -> str:
        return await self._harness.add(attempts=attempts, backoff=backoff_ms / 1000 or None)

    def source(self) -> Source[Any]:
        return self._harness.source()

    async def state(self, id: str) -> State:
        (state,) = await self._harness.where(id)
        return _STATES[state]

    async def pass_time(self, ms: int) -> None:
        await self._harness.clock.advance(ms / 1000)

    async def lapse_leases(self) -> None:
        await self._harness.lapse()


@contextlib.asynccontextmanager
async def bullmq_line(url: str) -> AsyncGenerator[Line]:
    async with harness_on(url, "laws") as harness:
        yield BullLine(harness)
