"""Schedulers: jobs that are added again and again, at an interval or by a cron pattern."""

import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import msgspec

from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.options import JobOptions
from waystation.bullmq.redis.client import Connect
from waystation.bullmq.redis.commands import sign
from waystation.bullmq.redis.packing import merged
from waystation.bullmq.scheduling import schedulers
from waystation.bullmq.scheduling.schedule import RepeatStrategy, Schedule, Scheduler
from waystation.core.errors import UnreadableData
from waystation.core.options import checked
from waystation.core.store.commands import server_ms

if TYPE_CHECKING:
    from waystation.bullmq.payloads.sealing import Sealing

_Schedulers: TypeAlias = list[Scheduler]


@checked
class Schedulers:
    """The schedulers of a queue: `queue.schedulers`."""

    def __init__(
        self,
        connect: Connect,
        connect_durably: Connect,
        defaults: JobOptions,
        strategy: RepeatStrategy | None,
        sealing: "Sealing | None" = None,
    ) -> None:
        """Internal: a queue makes it."""
        self._sealing = sealing
        self._connect = connect
        self._connect_durably = connect_durably
        self._defaults = defaults
        self._strategy = strategy

    async def upsert(
        self,
        scheduler_id: str,
        schedule: Schedule,
        *,
        name: str | None = None,
        data: Any = None,
        options: JobOptions | None = None,
        **given: Unpack[JobKeywords],
    ) -> str:
        """Make a scheduler, or change the one of this id; returns the id of its next job.

        Its jobs get this name (by default the scheduler's id), this data and these options. One
        that is paused stays so and makes no job; the returned id is empty then. A job that has
        begun, and sleeps or is to be tried again, goes on beside the next one.
        """
        # What is only read does not wait for a replica.
        client, keys = await self._connect()
        durable, _ = await self._connect_durably()
        if self._sealing is not None:
            data = await self._sealing.sealed_soon(keys.name, {} if data is None else data)
        made = await schedulers.upsert(
            durable,
            keys,
            scheduler_id,
            schedule,
            name=name,
            data=data,
            options=merged(options, given, self._defaults),
            now=await server_ms(client),
            strategy=self._strategy,
        )
        await sign(client, keys)
        return made

    async def get(self, scheduler_id: str) -> Scheduler | None:
        """The scheduler of this id."""
        found = await schedulers.get(*await self._connect(), scheduler_id)
        return found and await self._opened(found)

    async def list(self, offset: int = 0, limit: int | None = 100) -> _Schedulers:
        """Schedulers, by when their next jobs are due, paused ones last; `limit` None means all."""
        found = await schedulers.get_many(*await self._connect(), offset, limit)
        return [await self._opened(each) for each in found]

    async def count(self) -> int:
        """How many schedulers there are."""
        return await schedulers.count(*await self._connect())

    async def pause(self, scheduler_id: str, *, by: str = "") -> bool:
        """Make no jobs until it is resumed; False when it is paused already.

        Its next job goes; one that is due already, or has begun, stays. `by` names whoever pauses.
        """
        return await schedulers.pause(*await self._connect(), scheduler_id, by=by)

    async def resume(self, scheduler_id: str) -> str:
        """Make jobs again, without those that were missed; returns the id of the next one."""
        return await schedulers.resume(
            *await self._connect(), scheduler_id, strategy=self._strategy
        )

    async def remove(self, scheduler_id: str) -> bool:
        """Remove a scheduler; False when there is none. A job that is due, or has begun, stays."""
        return await schedulers.remove(*await self._connect(), scheduler_id)

    async def _opened(self, found: Scheduler) -> Scheduler:
        if self._sealing is None:
            return found
        # One that cannot be read must not hide the others.
        with contextlib.suppress(UnreadableData, OSError):
            data = await self._sealing.opened_soon(found.data)
            return msgspec.structs.replace(found, data=data)
        return found
