"""How jobs get in."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET

from waystation.bullmq.administration import Administration
from waystation.bullmq.getters import Getters
from waystation.bullmq.job import Job, QueueRef
from waystation.bullmq.limits import Limits
from waystation.bullmq.options import JobOptions
from waystation.bullmq.redis import packing, scripts
from waystation.bullmq.redis.commands import ask_all
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.packing import JobLike, NewJob, Packed, Packer
from waystation.bullmq.schedulers import Scheduling
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.core import codec
from waystation.core.errors import NotAdded, StoreBusy, StoreError, WaystationError
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.options import at_least
from waystation.core.store.connection import Store

VERSION = "bullmq:6.7.0"
"""The generation of BullMQ whose wire this is; dashboards read it."""
EVENTS_CAP = 10_000

Added: TypeAlias = Job | WaystationError
"""What came of sending a job: the job, or why it was refused."""


class Queue(Getters, Administration, Limits, Scheduling):
    """One queue, for those who put jobs in and look after them.

    A job may have up to `size_limit` bytes of data and options; what is larger is better stored
    elsewhere, with the place of it in the data. `repeat_strategy` reads the patterns of custom
    schedules.
    """

    def __init__(
        self,
        name: str,
        url: str | Store | None = None,
        *,
        prefix: str = PREFIX,
        default_job_options: JobOptions | None = None,
        size_limit: int = codec.PAYLOAD_LIMIT,
        repeat_strategy: RepeatStrategy | None = None,
    ) -> None:
        super().__init__(name, url, prefix=prefix)
        self._defaults = default_job_options or JobOptions()
        self._repeat_strategy = repeat_strategy
        self._packer = Packer(self._defaults, at_least("size_limit", size_limit, 1))

    async def add(
        self, name: str, data: Any = UNSET, options: JobOptions | None = None, **given: Any
    ) -> Job:
        """Add a job; options are a `JobOptions`, or its fields as keywords, or both.

        The data is any JSON value, and an empty object when none is given. Where the id is taken,
        or another job stands for this one, that job is returned as it is stored.
        """
        chosen = packing.merged(options, given, self._defaults)
        packed = self._packer.pack([NewJob(name, data, chosen)])
        [added] = await self._send(await self._connected(), packed)
        if isinstance(added, WaystationError):
            raise added
        return added

    async def add_many(self, jobs: Iterable[JobLike]) -> list[Job]:
        """Add many jobs, each a name, its data and perhaps options.

        All of them are checked before the first is sent; then they go a few hundred at a time, and
        none after a lot that the store has refused.
        """
        packed = self._packer.pack(jobs)
        store = await self._connected()
        sent: list[Added] = []
        try:
            await self._send_lots(store, packing.chunks(packed), sent)
        except StoreError as error:
            error.add_note(f"at least {len(sent)} of {len(packed)} jobs had been added")
            raise
        return _all_of(sent)

    async def _send_lots(
        self, store: Store, lots: Iterable[list[Packed]], sent: list[Added]
    ) -> None:
        # Each lot waits for the answer to the last: taken after one that was refused, it would
        # stand before it once that is sent again. Meanwhile the answer before is read.
        last: list[Packed] = []
        under_way: asyncio.Task[list[Any]] | None = None
        for lot in lots:
            ids = await under_way if under_way else []
            under_way = asyncio.create_task(self._request(store, lot))
            await asyncio.sleep(0)
            sent += self._as_added(store, last, ids)
            last = lot
        if under_way:
            sent += self._as_added(store, last, await under_way)

    async def _send(self, store: Store, packed: list[Packed]) -> list[Added]:
        return self._as_added(store, packed, await self._request(store, packed))

    async def _request(self, store: Store, packed: list[Packed]) -> list[Any]:
        return await scripts.add(
            store.durable,
            self.keys,
            base=self.keys.base,
            now=SERVER_TIME,
            jobs=[part for job in packed for part in job],
        )

    def _as_added(self, store: Store, packed: list[Packed], ids: Sequence[Any]) -> list[Added]:
        queue = QueueRef(store.hot, self.keys)
        now = b"%d" % (time.time_ns() // 1_000_000)
        return [
            packing.refusal(each[0].decode(), id)
            if isinstance(id, int)
            else packing.as_added(id, each, queue, now)
            for id, each in zip(ids, packed, strict=True)
        ]

    async def _on_connect(self, store: Store) -> None:
        # A store that is full, or a replica, can still be looked at and cleared.
        with contextlib.suppress(StoreBusy):
            await ask_all(
                store.hot,
                ("HSETNX", self.keys.meta, "opts.maxLenEvents", EVENTS_CAP),
                ("HSETNX", self.keys.meta, "version", VERSION),
            )


def _all_of(jobs: list[Added]) -> list[Job]:
    added = [job for job in jobs if isinstance(job, Job)]
    if len(added) == len(jobs):
        return added
    refused = {n: job for n, job in enumerate(jobs) if isinstance(job, WaystationError)}
    raise NotAdded(refused, [job if isinstance(job, Job) else None for job in jobs])
