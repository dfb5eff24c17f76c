"""Dead letters: jobs that have failed for good, which BullMQ keeps as `failed`."""

from typing import TYPE_CHECKING, TypeAlias

from waystation.bullmq.job import Job
from waystation.core.options import checked

if TYPE_CHECKING:
    from waystation.bullmq.queue import Queue

_Jobs: TypeAlias = list[Job]


@checked
class DeadLetters:
    """The failed jobs of a queue: `queue.dead_letters`."""

    def __init__(self, queue: "Queue") -> None:
        """Internal: a queue makes it."""
        self._queue = queue

    async def list(self, offset: int = 0, limit: int | None = 100) -> _Jobs:
        """Failed jobs, those that failed last first; `limit` None means all."""
        return await self._queue.get_jobs("failed", offset=offset, limit=limit, newest_first=True)

    async def count(self) -> int:
        """How many failed jobs there are."""
        return (await self._queue.counts("failed"))["failed"]

    async def retry(self, *ids: str) -> int:
        """Run these jobs again; returns how many of them had failed."""
        return await self._queue.retry(*ids, state="failed")

    async def retry_all(self, limit: int | None = None) -> int:
        """Run all failed jobs again, the oldest first, at most `limit`; returns how many."""
        return await self._queue.retry_all("failed", limit=limit)

    async def purge(self) -> int:
        """Remove all failed jobs; returns how many."""
        return len(await self._queue.clean(0, 0, "failed"))
