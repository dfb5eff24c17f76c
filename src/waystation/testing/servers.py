"""A server for one test, and a worker that runs until its queue is empty."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from waystation.core.durations import Duration, seconds
from waystation.core.store import embedded

FINISHED = ("completed", "failed", "dead", "dead_letters", "cancelled")
"""States of jobs that no worker will touch again."""

_LOOK_EVERY_S = 0.01


class Counted(Protocol):
    """A queue that knows how many jobs are in each state, as all queues here do."""

    def counts(self) -> Awaitable[Mapping[Any, int]]:
        """The number of jobs by state."""
        ...


class Runs(Protocol):
    """A worker: it runs until it is stopped."""

    async def run(self, *, signals: bool = True) -> None:
        """Work until stopped."""

    def stop(self) -> None:
        """Finish the running jobs and end."""


@asynccontextmanager
async def embedded_server() -> AsyncGenerator[str]:
    """Start an empty server in memory, give its URL, and end it on leaving."""
    server = await asyncio.to_thread(embedded.ephemeral)
    try:
        yield server.url
    finally:
        await asyncio.to_thread(server.close)


async def run_until_empty(
    worker: Runs,
    queue: Counted,
    *,
    timeout: Duration = 10.0,
    finished: Collection[str] = FINISHED,
) -> None:
    """Run a worker until all jobs of the queue are finished, then stop it.

    Raises `TimeoutError` when some are not within `timeout`, delayed ones included.
    """
    running = asyncio.create_task(worker.run(signals=False))
    try:
        async with asyncio.timeout(seconds(timeout, "timeout")):
            while await _open(queue, finished) and not running.done():
                await asyncio.wait([running], timeout=_LOOK_EVERY_S)
    finally:
        worker.stop()
        await running


async def _open(queue: Counted, finished: Collection[str]) -> int:
    counts = await queue.counts()
    return sum(count for state, count in counts.items() if state not in finished)
