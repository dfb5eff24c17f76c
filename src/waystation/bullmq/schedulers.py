"""The schedulers of a queue, in the manner BullMQ users know."""

from typing import Any

from waystation.bullmq.options import JobOptions
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.scheduling import advance
from waystation.bullmq.scheduling.schedule import RepeatStrategy, Schedule, Scheduler


class Scheduling(QueueClient):
    """What makes the queue's jobs come again and again."""

    _defaults = JobOptions()
    _repeat_strategy: RepeatStrategy | None = None

    async def upsert_job_scheduler(
        self,
        scheduler_id: str,
        schedule: Schedule,
        *,
        name: str | None = None,
        data: Any = None,
        options: JobOptions | None = None,
    ) -> str:
        """Make a scheduler, or change the one of this id; the id of its next job.

        Its jobs get this name, data and these options.
        """
        client, keys = await self._at_hand()
        return await advance.upsert(
            client,
            keys,
            scheduler_id,
            schedule,
            name=name,
            data=data,
            options=options or self._defaults,
            strategy=self._repeat_strategy,
        )

    async def get_job_scheduler(self, scheduler_id: str) -> Scheduler | None:
        """The scheduler of this id."""
        return await advance.get(*await self._at_hand(), scheduler_id)

    async def get_job_schedulers(
        self, start: int = 0, end: int = -1, *, asc: bool = True
    ) -> list[Scheduler]:
        """Schedulers by when they run next."""
        return await advance.get_many(*await self._at_hand(), start, end, asc=asc)

    async def count_job_schedulers(self) -> int:
        """How many schedulers there are."""
        return await advance.count(*await self._at_hand())

    async def remove_job_scheduler(self, scheduler_id: str) -> bool:
        """End a scheduler; False when there is none. A job of it that is due already stays."""
        return await advance.remove(*await self._at_hand(), scheduler_id)
