"""A source that records its calls, and a worker on it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from tests.support.patience import until
from waystation.core.errors import (
    ScriptFailed,
)
from waystation.core.runtime.batches import Batching
from waystation.core.runtime.claim import Reply, Settled
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.testing.memory import MemorySource


class Recorded(MemorySource):
    """Records each call: how many outcomes were sent and how many claims came back."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[tuple[int, int]] = []
        self.trouble: list[Exception] = []
        self.locked = False
        """Nothing can be claimed, but outcomes can be filed."""

    async def settle(self, settled: Sequence[Settled[Any]], *, claim: int) -> Reply[Any]:
        await asyncio.sleep(0)
        if self.trouble:
            raise self.trouble.pop()
        if self.locked and claim:
            raise ScriptFailed("nothing can be claimed")
        reply = await super().settle(settled, claim=claim)
        self.calls.append((len(settled), len(reply.claims)))
        return reply


@contextlib.asynccontextmanager
async def working(
    source: MemorySource,
    handle: Any,
    *,
    batch: int = 0,
    process: bool = False,
    listener: Any = None,
    batching: Batching[Any] | None = None,
    **options: Any,
) -> AsyncGenerator[Worker[Any]]:
    options = {"poll": 0.05} | options
    settings = WorkerOptions(**options)
    handler = handler_of(handle, process=process, batch=batch)
    worker = Worker(source, handler, settings, listener=listener, batching=batching)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await running


async def until_all(source: MemorySource, state: str = "completed") -> None:
    await until(lambda: all(entry.state == state for entry in source.entries.values()))


async def no_op(work: Any) -> None:
    return None
