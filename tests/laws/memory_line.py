"""The line in memory, under the laws."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any, cast

from tests.laws.line import Line, State
from waystation.core.backoff import Backoff, Growth
from waystation.core.clock import HandClock
from waystation.core.runtime.claim import Source
from waystation.testing.memory import MemorySource

LEASE_S = 30.0


class MemoryLine:
    def __init__(self) -> None:
        self._clock = HandClock()
        self._source = MemorySource(clock=self._clock, lease_s=LEASE_S)

    async def add(self, *, attempts: int = 1, backoff_ms: int = 0) -> str:
        backoff = Backoff(Growth.FIXED, backoff_ms) if backoff_ms else None
        return self._source.add("work", attempts=attempts, backoff=backoff)

    def source(self) -> Source[Any]:
        return self._source

    async def state(self, id: str) -> State:
        return cast(State, self._source.entries[id].state)

    async def pass_time(self, ms: int) -> None:
        await self._clock.advance(ms / 1000)

    async def lapse_leases(self) -> None:
        await self._clock.advance(LEASE_S + 1)
        await self._source.recover()


@contextlib.asynccontextmanager
async def memory_line(_url: str) -> AsyncGenerator[Line]:
    yield MemoryLine()
