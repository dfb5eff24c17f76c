"""The routing line, under the laws."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from tests.laws.line import Line, State
from tests.routing.hands import Hands, hands_on
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
    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._workers = 0

    async def add(self, *, attempts: int = 1, backoff_ms: int = 0) -> str:
        backoff = BackoffRule(type="fixed", delay=backoff_ms / 1000)
        return await self._hands.add(retry=Retry(attempts=attempts, backoff=backoff))

    def source(self) -> Source[Any]:
        self._workers += 1
        return self._hands.source(f"w{self._workers}")

    async def state(self, id: str) -> State:
        return _STATES[await self._hands.queue.state(id)]

    async def pass_time(self, ms: int) -> None:
        await self._hands.clock.advance(ms / 1000)

    async def lapse_leases(self) -> None:
        await self._hands.lapse()


@contextlib.asynccontextmanager
async def routing_line(url: str) -> AsyncGenerator[Line]:
    async with hands_on(url) as hands:
        yield RoutingLine(hands)
