"""One queue moved step by step, under a clock turned by hand."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from redis.asyncio import Redis

from waystation.bullmq.job import Job
from waystation.bullmq.options import JobOptions, wire_options
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.packing import wire_add_options
from waystation.bullmq.source import BullSource, ClaimOptions
from waystation.core import codec
from waystation.core.clock import HandClock
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.store.connection import Store, connect

LISTS = ("wait", "active")
SETS = ("prioritized", "delayed", "completed", "failed")


class Harness:
    """A queue with a producer, a worker and a stalled check, which a test moves step by step."""

    def __init__(self, store: Store, keys: QueueKeys) -> None:
        self.store = store
        self.redis: Redis = store.redis
        self.keys = keys
        self.clock = HandClock()
        self._sources: list[BullSource] = []
        self.worker = self.source()

    def source(self, *, worker: str = "host-1-abc", **options: Any) -> BullSource:
        """Return the source of one more worker."""
        chosen = ClaimOptions(worker=worker, **options)
        source = BullSource(self.store, self.keys, chosen, clock=self.clock)
        self._sources.append(source)
        return source

    async def close(self) -> None:
        for source in self._sources:
            await source.close()

    async def add(self, data: Any = None, *, name: str = "work", **options: Any) -> str:
        """Add a job; return its id."""
        chosen = JobOptions(**options)
        (id,) = await scripts.add(
            self.store.hot,
            self.keys,
            now=self.clock.now_ms(),
            jobs=[
                name,
                codec.encode({} if data is None else data),
                wire_options(chosen),
                wire_add_options(chosen),
            ],
        )
        assert isinstance(id, str)
        return id

    async def claim(self, many: int = 1) -> list[Claim[Job]]:
        """Claim up to `many` jobs for the worker."""
        return list((await self.worker.settle([], claim=many)).claims)

    async def claim_one(self) -> Claim[Job]:
        (claim,) = await self.claim()
        return claim

    async def end(self, claim: Claim[Job], outcome: Outcome) -> BaseException | None:
        """Settle a claim; return why it was refused or stored as a failure, if it was."""
        reply = await self.worker.settle([Settled(claim, outcome)], claim=0)
        if reply.refused:
            return reply.refused[0].reason
        match outcome, reply.settled[0].outcome:
            case Done(), Failed(error):
                return error
            case _:
                return None

    async def complete(self, claim: Claim[Job], result: Any = None) -> BaseException | None:
        return await self.end(claim, Done(result))

    async def fail(self, claim: Claim[Job], reason: str = "no") -> BaseException | None:
        return await self.end(claim, Failed(RuntimeError(reason)))

    async def hand_back(self, claim: Claim[Job]) -> BaseException | None:
        return await self.end(claim, Returned())

    async def extend(self, *claims: Claim[Job]) -> list[Claim[Job]]:
        """Renew locks; return the claims that are lost."""
        async with self.worker.keeper() as extend:
            return list(await extend(claims))

    async def check_stalled(
        self, *, max_stalled: int = 1, interval_ms: int = 30_000, most: int = 1000
    ) -> list[str]:
        """Make one pass of the stalled check."""
        return await scripts.recover_stalled(
            self.store.hot,
            self.keys,
            now=self.clock.now_ms(),
            interval_ms=interval_ms,
            max_stalled=max_stalled,
            most=most,
        )

    async def lapse(self, *, max_stalled: int = 1) -> list[str]:
        """Let every lock run out, and make two passes of the stalled check; return its ids."""
        for id in await self.ids("active"):
            await self.redis.delete(self.keys.of(id).lock)
        await self.redis.delete(self.keys.stalled_check)
        await self.check_stalled(max_stalled=max_stalled)
        await self.redis.delete(self.keys.stalled_check)
        return await self.check_stalled(max_stalled=max_stalled)

    async def hash(self, id: str) -> dict[str, str]:
        """Return the job's hash as it is stored."""
        flat = await self.call("HGETALL", self.keys.of(id).job)
        texts = [part.decode() for part in flat]
        return dict(zip(texts[::2], texts[1::2], strict=True))

    async def ids(self, state: str) -> list[str]:
        """Return the ids in a list or sorted set."""
        key = f"{self.keys.base}{state}"
        is_list = await self.call("TYPE", key) == b"list"
        found = await self.call("LRANGE" if is_list else "ZRANGE", key, 0, -1)
        return [id.decode() for id in found]

    async def where(self, id: str) -> list[str]:
        """Return the states that hold this job, read in one transaction; one, if all is well."""
        async with self.redis.pipeline(transaction=True) as look:
            for state in LISTS:
                look.lpos(f"{self.keys.base}{state}", id)
            for state in SETS:
                look.zscore(f"{self.keys.base}{state}", id)
            places: list[Any] = await look.execute()
        return [state for state, at in zip(LISTS + SETS, places, strict=True) if at is not None]

    async def events(self, name: str | None = None) -> list[dict[str, str]]:
        """Return the events of the stream in order; with `name`, only those."""
        entries = await self.call("XRANGE", self.keys.events, "-", "+")
        flat = [[part.decode() for part in entry] for _, entry in entries]
        events = [dict(zip(each[::2], each[1::2], strict=True)) for each in flat]
        return [event for event in events if name in (None, event.get("event"))]

    async def everything(self) -> dict[str, bytes]:
        """Return a dump of every key; equal dumps mean an untouched store."""
        keys = sorted(await self.call("KEYS", "*"))
        return {key.decode(): await self.call("DUMP", key) for key in keys}

    async def call(self, *command: str | bytes | int | float) -> Any:
        """Send a command to the store."""
        return await self.store.hot.execute_command(*command)


@contextlib.asynccontextmanager
async def harness_on(
    url: str, name: str = "mail", *, prefix: str = "bull"
) -> AsyncGenerator[Harness]:
    """Open a harness of one queue."""
    async with await connect(url) as store:
        harness = Harness(store, QueueKeys(name, prefix=prefix))
        try:
            yield harness
        finally:
            await harness.close()
