"""The files line, under the laws."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any, cast

from tests.files.hands import Hands, hands_on
from tests.laws.line import Line, State
from waystation.core.runtime.claim import Source


class FilesLine:
    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    async def add(self, *, attempts: int = 0, backoff_ms: int = 0) -> str:
        # How often to try belongs to the worker here, not to the job; and a worker that falls
        # silent has used up a try, so work that nobody limits has the line's own number of them.
        if attempts:
            self._hands.set(
                max_retries=attempts - 1, backoff=backoff_ms / 1000, backoff_max=backoff_ms / 1000
            )
        return await self._hands.add()

    def source(self) -> Source[Any]:
        return self._hands.source()

    async def state(self, id: str) -> State:
        (state,) = await self._hands.where(id)
        return cast(State, state)

    async def pass_time(self, ms: int) -> None:
        await self._hands.clock.advance(ms / 1000)

    async def lapse_leases(self) -> None:
        await self._hands.lapse()


@contextlib.asynccontextmanager
async def files_line(url: str) -> AsyncGenerator[Line]:
    async with hands_on(url) as hands:
        yield FilesLine(hands)
