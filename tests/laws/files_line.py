"""The files line, under the laws."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any, cast

from tests.files.harness import Harness, harness_on
from tests.laws.line import Line, State
from waystation.core.runtime.claim import Source


class FilesLine:
    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    async def add(self, *, attempts: int = 0, backoff_ms: int = 0) -> str:
        # How often to try belongs to the worker here, not to the job; and a worker that falls
        # silent has used up a try, so work that nobody limits has the line's own number of them.
        if attempts:
            self._harness.set(
                max_retries=attempts - 1, backoff=backoff_ms / 1000, backoff_max=backoff_ms / 1000
            )
        return await self._harness.add()

    def source(self) -> Source[Any]:
        return self._harness.source()

    async def state(self, id: str) -> State:
        (state,) = await self._harness.where(id)
        return cast(State, state)

    async def pass_time(self, ms: int) -> None:
        await self._harness.clock.advance(ms / 1000)

    async def lapse_leases(self) -> None:
        await self._harness.lapse()


@contextlib.asynccontextmanager
async def files_line(url: str) -> AsyncGenerator[Line]:
    async with harness_on(url) as harness:
        yield FilesLine(harness)
