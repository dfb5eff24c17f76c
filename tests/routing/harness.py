"""A routing queue, its sources and its upkeep, on a clock turned by hand."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, cast

from redis.asyncio import Redis

from waystation.core.clock import HandClock
from waystation.core.outcome import Done, Failed, Outcome
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.store.connection import Store, connect
from waystation.core.store.leader import Election
from waystation.routing.job import Job
from waystation.routing.queue import Queue
from waystation.routing.redis.keys import RoutingKeys, SchedulerKeys
from waystation.routing.registry import Profile
from waystation.routing.source import ClaimOptions, RoutingSource
from waystation.routing.upkeep import SchedulerOptions, Upkeep

LEASE_MS = 30_000


class Harness:
    def __init__(self, store: Store, namespace: str) -> None:
        self.store = store
        self.redis: Redis = store.redis
        self.clock = HandClock()
        self.queue = Queue(store, prefix=namespace, clock=self.clock)
        self.keys: RoutingKeys = self.queue.keys
        self._sources: list[RoutingSource] = []

    def source(
        self,
        server: str = "w1",
        *,
        stack: str = "python",
        region: str = "",
        capabilities: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> RoutingSource:
        """Return the source of one more worker."""
        profile = Profile(
            server=server,
            stack=stack,
            region=region,
            capabilities=tuple(capabilities),
            types=tuple(types),
        )
        options = ClaimOptions(lease_ms=LEASE_MS, announce=False)
        source = RoutingSource(self.store, self.keys, profile, options, clock=self.clock)
        self._sources.append(source)
        return source

    async def add(self, type: str = "email", payload: object = None, **options: Any) -> str:
        return (await self.queue.add(type, payload, **options)).id

    async def claim(self, source: RoutingSource, limit: int = 1) -> Sequence[Claim[Job]]:
        return (await source.settle([], claim=limit)).claims

    async def claim_ids(self, source: RoutingSource, limit: int = 1) -> list[str]:
        return [claim.id for claim in await self.claim(source, limit)]

    async def settle(
        self, source: RoutingSource, claim: Claim[Job], outcome: Outcome | None = None
    ) -> Sequence[Refused[Job]]:
        return (await source.settle([Settled(claim, outcome or Done("ok"))], claim=0)).refused

    async def fail(self, source: RoutingSource, error: Exception | None = None) -> str:
        (claim,) = await self.claim(source)
        assert not await self.settle(source, claim, Failed(error or RuntimeError("no")))
        return claim.id

    async def upkeep(self, options: SchedulerOptions | None = None, owner: str = "us") -> Upkeep:
        """Return the upkeep, after taking the lead from whoever had it."""
        await self.redis.delete(self.keys.name + ":scheduler:lock")
        election = Election(self.redis, SchedulerKeys(self.keys.namespace), owner=owner)
        term = await election.acquire()
        assert term is not None
        return Upkeep(self.redis, self.keys, term, options, clock=self.clock)

    async def lapse(self) -> list[str]:
        """Let every lease run out, and recover the jobs; return their ids."""
        await self.clock.advance(LEASE_MS / 1000 + 1)
        return await (await self.upkeep()).recover()

    async def waiting(self) -> list[str]:
        found: Any = await self.redis.lrange(self.keys.waiting, 0, -1)
        return [each.decode() for each in found]

    async def keys_like(self, pattern: str) -> list[str]:
        found = cast("AsyncIterator[bytes]", self.redis.scan_iter(pattern, count=1000))
        return sorted([key.decode() async for key in found])

    async def calls(self, *commands: str) -> int:
        """Return how often the server has run these commands."""
        found: Any = await self.redis.info("commandstats")
        return sum(found.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in commands)

    async def asked(self, *command: Any) -> Any:
        """Send a command to the store."""
        return await self.store.hot.execute_command(*command)

    async def text(self, key: str) -> str | None:
        found: Any = await self.redis.get(key)
        return found.decode() if found is not None else None

    async def events(self) -> list[dict[str, str]]:
        found: Any = await self.redis.xrange(self.keys.events)
        return [{k.decode(): v.decode() for k, v in fields.items()} for _, fields in found]

    async def event_names(self, subject: str) -> list[str]:
        return [each["event"] for each in await self.events() if each["subject"] == subject]

    async def close(self) -> None:
        for source in self._sources:
            await source.close()
        # What the document's own scripts leave behind is not ours to declare.
        for key in await self.keys_like("literal:*"):
            await self.redis.delete(key)


@contextlib.asynccontextmanager
async def harness_on(url: str, namespace: str = "bridge") -> AsyncGenerator[Harness]:
    async with await connect(url) as store:
        harness = Harness(store, namespace)
        yield harness
        await harness.close()
