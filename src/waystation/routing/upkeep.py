"""Upkeep: the duties of the one scheduler that leads, and its election."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from waystation.core import codec, identity
from waystation.core.clock import SERVER_TIME, Clock
from waystation.core.durations import Duration, milliseconds, seconds
from waystation.core.errors import Malformed, NotLeader
from waystation.core.options import at_least
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import end
from waystation.core.shared import Shared
from waystation.core.store.client import StoreClient
from waystation.core.store.commands import ask, server_ms
from waystation.core.store.connection import Store
from waystation.core.store.leader import Election, Term
from waystation.core.store.script import Client, texts
from waystation.core.telemetry.logs import describe, get_logger
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import NAMESPACE, RoutingKeys, SchedulerKeys
from waystation.routing.redis.replies import Page
from waystation.routing.redis.wire import WireJob, instance_of, read_schedule, text_of
from waystation.routing.schedules import turn

_log = get_logger(__name__)

BATCH = 100
"""Jobs that one step of a duty takes."""
STRETCH = 200
"""Places of the waiting list that one step compares with the index."""
PAGES = 20
"""Such steps in one look for what others have ended; the next look goes on from there."""


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often the leading scheduler does its duties, and how patient it is."""

    tick: Duration = 1.0
    """How often delayed jobs and schedules are examined."""
    recover: Duration = 5.0
    """How often jobs of dead workers are taken back."""
    mend: Duration = 30.0
    """How often counts, index and registry are repaired."""
    term: Duration = 30.0
    """How long a leader that fell silent keeps the lead."""
    max_stalls: int = 3
    """How often a job may stall before it becomes a dead letter."""
    forget_workers: Duration = 300.0
    """How long a dead worker stays in the registry."""

    def __post_init__(self) -> None:
        for name in ("tick", "recover", "mend", "term"):
            seconds(getattr(self, name), name, above=0)
        seconds(self.forget_workers, "forget_workers")
        at_least("max_stalls", self.max_stalls, 0)


class Upkeep:
    """The duties of the leader, one bounded pass each; a late leader's passes change nothing."""

    def __init__(
        self,
        client: Client,
        keys: RoutingKeys,
        term: Term,
        options: SchedulerOptions | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._keys = keys
        self._term = term
        self._options = options or SchedulerOptions()
        self._clock = clock
        self._seen: tuple[int, int] = (0, 0)
        """How far the looks for jobs that others have ended have come."""

    async def promote_due(self) -> int:
        """Let delayed jobs wait whose time has come; how many did."""
        promoted = 0
        while True:
            count = await scripts.process_delayed(
                self._client, self._keys, now=self._now(), batch=BATCH
            )
            promoted += count
            if count < BATCH:
                return promoted

    async def fire_schedules(self) -> list[str]:
        """Make the jobs of every slot whose time has come; their ids."""
        now_ms = await self._now_ms()
        found = await ask(
            self._client,
            "ZRANGEBYSCORE",
            self._keys.cron,
            0,
            now_ms,
            "WITHSCORES",
            "LIMIT",
            0,
            BATCH,
        )
        if not found:
            return []
        ids, scores = found[::2], found[1::2]
        datas = await ask(
            self._client, "MGET", *(self._keys.data_prefix.encode() + id for id in ids)
        )
        records: list[str | bytes | int] = []
        for id, score, raw in zip(ids, scores, datas, strict=True):
            records += self._turn(id, score, raw, now_ms)
        return await scripts.fire_cron(
            self._client, self._keys, now=self._now(), term=self._term.number, schedules=records
        )

    def _turn(
        self, id: bytes, score: bytes, raw: bytes | None, now_ms: int
    ) -> Sequence[str | bytes | int]:
        try:
            return _record(id, score, raw or b"", now_ms)
        except Exception as error:
            # Whatever is wrong with one schedule costs that schedule alone: it cannot be fired, now
            # or later, and becomes a dead letter.
            job_id = id.decode(errors="backslashreplace")
            _log.error("schedule_unreadable", product="routing", job_id=job_id, **describe(error))
            return (id, score, "", "", 0, 0)

    async def recover(self) -> list[str]:
        """Take back the jobs of workers that fell silent; their ids."""
        taken: list[str] = []
        given_up: list[str] = []
        for silent in await self._silent():
            most = self._options.max_stalls
            page = await self._around(scripts.recover, max_stalls=most, workers=silent)
            taken += page.names
            given_up += page.given_up
        taken += (await self._around(scripts.recover_foreign)).names
        for id in taken:
            _log.warning("job_stalled", product="routing", job_id=id)
        for id in given_up:
            error = "more workers fell silent while they held it than max_stalls allows"
            _log.error(
                "job_failed", product="routing", job_id=id, error_code="STALLED", error=error
            )
        return taken

    async def _silent(self) -> list[list[str]]:
        """The workers without a heartbeat, in pages, of which there is one at least."""
        silent = list[str]()
        names = texts(await ask(self._client, "SMEMBERS", self._keys.registered))
        for first in range(0, len(names), 1000):
            some = names[first : first + 1000]
            beats = [self._keys.worker_at(name).heartbeat for name in some]
            found = await ask(self._client, "MGET", *beats)
            silent += [name for name, beat in zip(some, found, strict=True) if beat is None]
        return [silent[first : first + BATCH] for first in range(0, len(silent), BATCH)] or [[]]

    async def _around(self, script: Callable[..., Awaitable[Page]], **given: object) -> Page:
        """Call a script until it has come around; what all its pages have."""
        names, given_up, cursor = list[str](), list[str](), 0
        while True:
            page = await script(
                self._client,
                self._keys,
                now=self._now(),
                term=self._term.number,
                batch=BATCH,
                cursor=cursor,
                **given,
            )
            names += page.names
            given_up += page.given_up
            cursor = page.cursor
            # A full page may have left some behind that no cursor leads to.
            if not cursor and len(page.names) < BATCH:
                return Page(names, 0, given_up)

    async def release(self) -> int:
        """Go on with jobs that waited for one that has ended; how many there were."""
        released = 0
        while True:
            count, _, _ = await self._release("", "")
            released += count
            if count < BATCH:
                return released

    async def find_ended(self) -> None:
        """Look through some of what other clients may have ended with plain commands."""
        for _ in range(PAGES):
            _, *seen = await self._release(*self._seen)
            self._seen = (int(seen[0]), int(seen[1]))
            if self._seen == (0, 0):
                return

    async def _release(self, cursor: str | int, routes_cursor: str | int) -> Sequence[Any]:
        return await scripts.release(
            self._client,
            self._keys,
            now=self._now(),
            term=self._term.number,
            batch=BATCH,
            cursor=cursor,
            routes_cursor=routes_cursor,
        )

    async def reconcile(self) -> list[str]:
        """Put right the counts of running jobs; the types that were wrong."""
        limited = await ask(self._client, "HKEYS", self._keys.limits)
        types = {*texts(limited)} | await self._limited_by_their_jobs()
        # The script adds the types of the jobs that run under a limit.
        return await scripts.reconcile(
            self._client, self._keys, term=self._term.number, counted=sorted(types)
        )

    async def _limited_by_their_jobs(self) -> set[str]:
        # A count that is wrong hurts only where jobs wait for it.
        types: set[str] = set()
        for first in itertools.count(0, 1000):
            signatures = await ask(self._client, "ZRANGE", self._keys.heads, first, first + 999)
            for each in signatures:
                # A type that another client wrote may be no text; its jobs are counted by no limit.
                with contextlib.suppress(Malformed):
                    types |= {codec.decode(each)[0]} if each.endswith(b"}]") else set()
            if len(signatures) < 1000:
                break
        return types

    async def tidy(self) -> list[str]:
        """Forget workers silent for long and signatures nobody asks for; those workers' ids."""
        gone: list[str] = []
        cursor, silent = 0, await self._silent()
        while True:
            page = await scripts.tidy(
                self._client,
                self._keys,
                now=self._now(),
                term=self._term.number,
                silent_ms=milliseconds(self._options.forget_workers),
                batch=1000,
                cursor=cursor,
                workers=silent.pop() if silent else [],
            )
            gone += page.names
            cursor = page.cursor
            if cursor == 0 and not silent:
                return gone

    async def reindex(self) -> int:
        """Mend the index when others have changed the list with plain commands; how much it was."""
        listed = await ask(self._client, "LLEN", self._keys.waiting)
        placed = await ask(self._client, "ZCARD", self._keys.places)
        if listed == placed:
            return 0
        mended, first = 0, 0
        while first >= 0:
            count, first = await scripts.reindex(
                self._client,
                self._keys,
                now=self._now(),
                term=self._term.number,
                first=first,
                count=STRETCH,
            )
            mended += count
        return mended

    def _now(self) -> str | int:
        return self._clock.now_ms() if self._clock else SERVER_TIME

    async def _now_ms(self) -> int:
        return self._clock.now_ms() if self._clock else await server_ms(self._client)


def _record(id: bytes, score: bytes, raw: bytes, now_ms: int) -> Sequence[str | bytes | int]:
    """What is to be done about one schedule that is due, as the script takes it."""
    name = text_of(id)
    schedule = read_schedule(bytes(codec.decode(raw, WireJob).schedule))
    # Others may have written half a millisecond; a slot is a whole one.
    decided = turn(schedule, int(float(score)), now_ms)
    fired: list[str | bytes | int] = []
    for slot in decided.fire:
        fired += [slot, instance_of(raw, f"{name}:{slot}", now_ms)]
    next_ms = "" if decided.next_ms is None else decided.next_ms
    older = [f"{decided.older[0]}-{decided.older[1]}"] if decided.older else []
    left_out = [*older, *decided.leave_out]
    head = (id, score, next_ms, schedule.overlap, len(decided.fire))
    return (*head, *fired, len(left_out), *left_out)


class Scheduler(StoreClient):
    """One candidate; any number may run, and one of them leads."""

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        prefix: str = NAMESPACE,
        options: SchedulerOptions | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(url)
        self._keys = RoutingKeys(prefix)
        self.name = name or identity.worker_name()
        self._options = options or SchedulerOptions()

    async def run(self) -> None:
        """Stand for election until cancelled, and do the duties whenever elected."""
        client = (await self._connected()).hot
        election = Election(
            client,
            SchedulerKeys(self._keys.namespace),
            owner=self.name,
            ttl_ms=milliseconds(self._options.term),
        )

        async def scheduler() -> None:
            if (term := await election.acquire()) is not None:
                await self._lead(client, election, term)

        await Loop(scheduler, every_s=seconds(self._options.tick)).run()

    async def _lead(self, client: Client, election: Election, term: Term) -> None:
        upkeep = Upkeep(client, self._keys, term, self._options)
        options = self._options
        rounds = (
            Loop(upkeep.promote_due, every_s=seconds(options.tick)),
            Loop(upkeep.fire_schedules, every_s=seconds(options.tick)),
            Loop(upkeep.release, every_s=seconds(options.tick)),
            Loop(upkeep.find_ended, every_s=seconds(options.mend)),
            Loop(upkeep.recover, every_s=seconds(options.recover)),
            Loop(upkeep.reconcile, every_s=seconds(options.mend)),
            Loop(upkeep.reindex, every_s=seconds(options.mend)),
            Loop(upkeep.tidy, every_s=seconds(options.mend)),
        )
        with contextlib.suppress(NotLeader):
            async with election.holding(term), asyncio.TaskGroup() as group:
                for each in rounds:
                    group.create_task(each.run(), name=each.name)


async def share_scheduler(store: Store, namespace: str, options: SchedulerOptions) -> None:
    """Have the one scheduler of this process run, together with others, until cancelled."""
    async with _running.using((store, namespace, options)):
        await asyncio.Event().wait()


async def _run(place: tuple[Store, str, SchedulerOptions]) -> asyncio.Task[None]:
    store, namespace, options = place
    return asyncio.create_task(Scheduler(store, prefix=namespace, options=options).run())


async def _stop(running: asyncio.Task[None]) -> None:
    await end([running])


_running = Shared(_run, _stop)
