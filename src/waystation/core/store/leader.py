"""Leader election: one process at a time does what only one may do.

A leader's term is kept under a key that runs out, and has a number that only grows. Whoever leads
passes the number along; a script that `uses fenced` refuses it once a newer term has begun, so a
leader that was frozen and wakes up late changes nothing.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidOption, NotLeader, StoreError
from waystation.core.store.keyspace import Keyspace, String
from waystation.core.store.script import Client, script


class OfficeKeys(Keyspace):
    """The two keys of an election; a subclass may name them otherwise."""

    leader = String("leader", "who leads now", ttl="the length of a term")
    terms = String("terms", "how many terms there have been")


class Term(msgspec.Struct, frozen=True):
    """One leader's time, from taking the lead to losing it."""

    owner: str
    number: int
    """Grows with every term; a script compares it to refuse a leader whose term is over."""


class Election:
    """One candidate's view of an election."""

    def __init__(
        self,
        redis: Client,
        seat: OfficeKeys,
        *,
        owner: str,
        ttl_ms: int = 30_000,
        clock: Clock | None = None,
    ) -> None:
        if not owner:
            raise InvalidOption("a candidate needs a name of its own, got none")
        if ttl_ms < 3:
            raise InvalidOption(f"a term must last at least 3 ms, got {ttl_ms}")
        self._redis = redis
        self._seat = seat
        self._owner = owner
        self._ttl_ms = ttl_ms
        self._clock = clock or SystemClock()

    @property
    def renew_every(self) -> float:
        """Seconds between two renewals, so that two may fail before the term runs out."""
        return self._ttl_ms / 3000

    async def acquire(self) -> Term | None:
        """Take the lead; None while somebody else has it."""
        number = await take_lead(self._redis, self._seat, owner=self._owner, ttl=self._ttl_ms)
        return Term(self._owner, number) if number else None

    async def renew(self, term: Term) -> None:
        """Lengthen the term; raises `NotLeader` when it is over."""
        await keep_lead(
            self._redis, self._seat, owner=term.owner, number=term.number, ttl=self._ttl_ms
        )

    async def resign(self, term: Term) -> bool:
        """Let others lead; False when the term was over already."""
        return await leave_lead(self._redis, self._seat, owner=term.owner, number=term.number)

    @asynccontextmanager
    async def holding(self, term: Term) -> AsyncGenerator[Term]:
        """Renew the term while inside and resign at the end; losing it stops what is inside."""
        inside = asyncio.current_task()
        if inside is None:
            raise RuntimeError("a term can only be held inside a task")
        renewal = asyncio.create_task(self._renew_until_lost(term))
        is_left = False

        def interrupt(done: asyncio.Task[None]) -> None:
            # A term that ends while it is being left interrupts nobody any more.
            if not (done.cancelled() or is_left):
                inside.cancel()

        renewal.add_done_callback(interrupt)
        try:
            yield term
        except asyncio.CancelledError:
            if not renewal.done() or renewal.cancelled() or inside.uncancel():
                raise
            raise NotLeader(f"term {term.number} of {term.owner} is over") from None
        finally:
            is_left = True
            renewal.cancel()
            await asyncio.wait([renewal])
            await self._resign_quietly(term)

    async def _renew_until_lost(self, term: Term) -> None:
        runs_out = self._clock.monotonic() + self._ttl_ms / 1000
        while self._clock.monotonic() < runs_out:
            await self._clock.sleep(min(self.renew_every, runs_out - self._clock.monotonic()))
            asked = self._clock.monotonic()
            try:
                await self.renew(term)
            except NotLeader:
                return
            except StoreError:
                # The server may be back before the term runs out there.
                continue
            runs_out = asked + self._ttl_ms / 1000

    async def _resign_quietly(self, term: Term) -> None:
        try:
            await self.resign(term)
        except StoreError:
            # Nobody hears us; the term runs out by itself.
            return


@script(reply=int)
async def take_lead(redis: Client, seat: OfficeKeys, *, owner: str, ttl: int) -> int:
    """Begin a term when nobody leads, or go on with one's own; 0 when somebody else leads."""
    ...


@script(reply=bool)
async def keep_lead(redis: Client, seat: OfficeKeys, *, owner: str, number: int, ttl: int) -> bool:
    """Lengthen a term that still counts."""
    ...


@script(reply=bool)
async def leave_lead(redis: Client, seat: OfficeKeys, *, owner: str, number: int) -> bool:
    """End a term that still counts; False when it was over already."""
    ...
