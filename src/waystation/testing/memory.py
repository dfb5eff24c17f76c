"""A source of jobs in memory, for the runtime's own tests and for `run_jobs`. Internal."""

import asyncio
import contextlib
import heapq
import itertools
import random
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from waystation.core.backoff import Backoff, Dice
from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import LeaseLost, Unrecoverable
from waystation.core.outcome import Done, Failed, Moved, Retried, Returned, Stored
from waystation.core.runtime.claim import Claim, Extend, Refused, Reply, Settled


class Entry:
    """One piece of work and everything known about it."""

    __slots__ = (
        "attempts",
        "attempts_made",
        "backoff",
        "deadline",
        "error",
        "id",
        "result",
        "state",
        "token",
        "work",
    )

    def __init__(self, id: str, work: Any, attempts: int, backoff: Backoff | None) -> None:
        self.id = id
        self.work = work
        self.attempts = attempts
        self.backoff = backoff
        self.state = "waiting"
        self.attempts_made = 0
        self.token = ""
        self.deadline = 0.0
        self.result: Any = None
        self.error: BaseException | None = None


class MemorySource:
    """A line without a store; it forgets everything when the process ends."""

    def __init__(
        self,
        *,
        lease_s: float = 30.0,
        clock: Clock | None = None,
        dice: Dice | None = None,
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self._dice = dice or random.Random()
        self._lease_s = lease_s
        self._clock = clock or SystemClock()
        self._waiting: deque[Entry] = deque()
        self._delayed: list[tuple[float, int, Entry]] = []
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)
        self._news = asyncio.Event()

    def add(self, work: Any, *, attempts: int = 1, backoff: Backoff | None = None) -> str:
        """Put work at the end of the line and return its id."""
        entry = Entry(str(next(self._numbers)), work, attempts, backoff)
        self.entries[entry.id] = entry
        self._waiting.append(entry)
        self._news.set()
        return entry.id

    async def settle(self, settled: Sequence[Settled[Any]], *, claim: int) -> Reply[Any]:
        """File outcomes away and claim more."""
        refused: list[Refused[Any]] = []
        stored: list[Settled[Any]] = []
        for each in settled:
            entry = self.entries[each.claim.id]
            if entry.token != each.claim.token:
                lost = LeaseLost(f"job {entry.id} is held by somebody else")
                refused.append(Refused(each.claim, lost))
                continue
            outcome = self._end(entry, each.outcome)
            if outcome is not each.outcome:
                each = Settled(each.claim, outcome, each.took_s)
            stored.append(each)
        return Reply(self._claim(claim), refused, stored)

    async def wait(self, at_most: float) -> None:
        """Return when there may be work."""
        due = self._delayed[0][0] - self._clock.monotonic() if self._delayed else at_most
        alarm = asyncio.ensure_future(self._clock.sleep(max(0.0, min(at_most, due))))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((alarm, news), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            news.cancel()

    @contextlib.asynccontextmanager
    async def keeper(self) -> AsyncGenerator[Extend]:
        """Open the way to renew leases."""
        yield self._extend

    async def recover(self) -> list[str]:
        """Put work whose lease has lapsed back at the head of the line."""
        now = self._clock.monotonic()
        lapsed = [e for e in self.entries.values() if e.state == "active" and e.deadline <= now]
        for entry in lapsed:
            self._put_back(entry)
        return [entry.id for entry in lapsed]

    async def _extend(self, claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
        deadline = self._clock.monotonic() + self._lease_s
        lost: list[Claim[Any]] = []
        for claim in claims:
            entry = self.entries[claim.id]
            if entry.token == claim.token:
                entry.deadline = deadline
            else:
                lost.append(claim)
        return lost

    def _claim(self, limit: int) -> list[Claim[Any]]:
        self._promote_due()
        deadline = self._clock.monotonic() + self._lease_s
        claims: list[Claim[Any]] = []
        for _ in range(min(limit, len(self._waiting))):
            entry = self._waiting.popleft()
            entry.state = "active"
            entry.attempts_made += 1
            entry.token = f"{entry.id}:{next(self._tokens)}"
            entry.deadline = deadline
            claims.append(Claim(entry.id, entry.work, entry.token))
        if not self._waiting:
            self._news.clear()
        return claims

    def _end(self, entry: Entry, outcome: Stored) -> Stored:
        entry.token = ""
        match outcome:
            case Done(result):
                entry.state, entry.result = "completed", result
            case Returned() | Moved():
                entry.attempts_made -= 1
                self._put_back(entry)
            case Failed(error):
                entry.error = error
                if entry.attempts_made < entry.attempts and not isinstance(error, Unrecoverable):
                    return Retried(error, entry.attempts_made, self._retry(entry))
                entry.state = "failed"
                return Failed(error, entry.attempts_made)
        return outcome

    def _retry(self, entry: Entry) -> int:
        entry.state = "delayed"
        pause = entry.backoff.pause_ms(entry.attempts_made, self._dice) if entry.backoff else 0
        due = self._clock.monotonic() + pause / 1000
        heapq.heappush(self._delayed, (due, next(self._tokens), entry))
        self._news.set()
        return pause

    def _put_back(self, entry: Entry) -> None:
        entry.state, entry.token = "waiting", ""
        self._waiting.appendleft(entry)
        self._news.set()

    def _promote_due(self) -> None:
        now = self._clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            entry = heapq.heappop(self._delayed)[2]
            entry.state = "waiting"
            self._waiting.append(entry)
