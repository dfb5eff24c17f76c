"""A queue of files: add a file, look where it is, let time pass."""

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from waystation.core.breaker import BreakerOptions
from waystation.core.clock import HandClock
from waystation.core.store.connection import Store, connect
from waystation.files import job as jobs
from waystation.files.claims import FileSource
from waystation.files.fetch import HandledFiles
from waystation.files.metrics import Meter
from waystation.files.options import Layout, WorkerOptions
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.upkeep import Reaper

REMEMBER_MS = 3_600_000


class Harness:
    """One queue of files and everything a test does with it."""

    def __init__(self, store: Store, layout: Layout | None = None) -> None:
        self.store = store
        self.redis: Any = store.redis
        self.keys = FileKeys(layout)
        self.clock = HandClock()
        self.options = WorkerOptions(backoff=0)
        self.sources: list[FileSource] = []

    def set(self, **options: Any) -> None:
        self.options = msgspec.structs.replace(self.options, **options)

    async def add(
        self,
        path: str = "/inbox/a.pdf",
        *,
        priority: str = "low",
        digest: bytes = b"",
        size: int = 1,
        id: str | None = None,
    ) -> str:
        lane = self.keys.layout.priorities.index(priority) + 1
        queue = self.keys.queues[lane - 1]
        id, raw = jobs.write(path, size, priority=priority, queue=queue, now_ns=0, id=id)
        await scripts.add(
            self.redis,
            self.keys,
            now=self.clock.now_ms(),
            events_cap=10_000,
            remember_ms=REMEMBER_MS,
            rate=0,
            burst=1,
            jobs=[digest, lane, id, raw, path, size],
        )
        return id

    def source(
        self,
        *,
        breaker: BreakerOptions | None = None,
        meter: Meter | None = None,
        worker: str | None = None,
        ending: str | None = None,
    ) -> FileSource:
        """Return one worker's source; with an ending it has a handler for those files only."""
        handles = HandledFiles([f"**/*{ending}"], _with_ending(ending)) if ending else None
        made = FileSource(
            self.store,
            self.keys,
            self.options,
            clock=self.clock,
            breaker=breaker,
            meter=meter,
            worker=worker,
            handles=handles,
        )
        self.sources.append(made)
        return made

    async def where(self, id: str) -> list[str]:
        """Return every place the job is in, all read in one transaction."""
        workers = {source.worker for source in self.sources}
        workers |= {each.decode() for each in await self.redis.smembers(self.keys.workers)}
        lists = [("completed", self.keys.completed), ("failed", self.keys.dead_letter)]
        lists += [("waiting", queue) for queue in self.keys.queues]
        lists += [("active", self.keys.of(worker).processing) for worker in workers]
        states = [state for state, _ in lists] + ["delayed"] * len(self.keys.queues)
        moment = self.redis.pipeline(transaction=True)
        for _, key in lists:
            moment.lrange(key, 0, -1)
        for scheduled in self.keys.lanes[1::2]:
            moment.zrange(scheduled, 0, -1)
        places: list[list[bytes]] = await moment.execute()
        return [
            state
            for state, raws in zip(states, places, strict=True)
            for raw in raws
            if f'"{id}"'.encode() in raw
        ]

    async def silence(self) -> None:
        """Let every worker's heartbeat lapse."""
        for worker in await self.redis.smembers(self.keys.workers):
            await self.redis.delete(self.keys.of(worker.decode()).heartbeat)

    def reaper(self, *, client: Any = None, **options: Any) -> Reaper:
        client = client or self.redis
        return Reaper(client, self.keys, self.options, clock=self.clock, **options)

    async def lapse(self) -> int:
        """Let every worker count as dead, and take back what it holds."""
        moved = 0
        for _ in range(100):
            await self.silence()
            moved += await self.reaper().reap()
            # A worker that is alive may beat between the two steps; then they are taken again.
            if not await self._held():
                break
        return moved

    async def _held(self) -> int:
        workers = [worker.decode() for worker in await self.redis.smembers(self.keys.workers)]
        return sum([await self.redis.llen(self.keys.of(name).processing) for name in workers])

    async def events(self) -> list[dict[str, str]]:
        entries: Any = await self.redis.xrange(self.keys.events)
        return [
            {name.decode(): value.decode() for name, value in fields.items()}
            for _, fields in entries
        ]


def _with_ending(ending: str) -> Callable[[jobs.Job], bool]:
    return lambda job: job.filepath.endswith(ending)


@contextlib.asynccontextmanager
async def harness_on(url: str, layout: Layout | None = None) -> AsyncGenerator[Harness]:
    async with await connect(url) as store:
        harness = Harness(store, layout)
        yield harness
        for source in harness.sources:
            await source.close()
