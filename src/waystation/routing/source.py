"""The queue as a source of jobs: matched, claimed and settled in batches, under leases."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, TypeAlias

import msgspec

from waystation.core import codec
from waystation.core.backoff import Backoff, Dice, Growth
from waystation.core.clock import SERVER_TIME, Clock, SystemClock, script_time
from waystation.core.durations import milliseconds
from waystation.core.errors import (
    Cancelled,
    InvalidResult,
    LeaseLost,
    Malformed,
    NotFound,
    StoreError,
    Unrecoverable,
    WaystationError,
)
from waystation.core.failure import trace_text
from waystation.core.line.lost_answers import LostAnswers
from waystation.core.outcome import Done, Failed, Retried, Stored
from waystation.core.runtime.claim import Claim, Extend, Refused, Reply, Settled
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import end
from waystation.core.shared import Shared
from waystation.core.store.commands import ask
from waystation.core.store.connection import Store
from waystation.core.store.script import Client
from waystation.routing import registry
from waystation.routing.hub import Place, Wakes
from waystation.routing.job import HeldJob, Job, route_of
from waystation.routing.options import BackoffRule, Retry
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.redis.replies import Settlement
from waystation.routing.redis.wire import rewritten, text_of
from waystation.routing.registry import Profile
from waystation.routing.results import KEPT_S, dead_letter_meta, failure, success

Record: TypeAlias = Sequence[str | bytes | int]
"""An outcome as the settling script takes it."""

Sent: TypeAlias = tuple[Settled[Job], Record]
"""An outcome as it will be stored, and what is sent for it."""

BEAT_S = 10.0
BEATS_PER_CALL = 500
"""Heartbeats in one call."""
_LAST_BEAT_S = 1.0
"""How long a worker that leaves waits for a heartbeat under way."""


class Heartbeats:
    """The heartbeats of all workers at one place, and the client that renews their leases."""

    def __init__(self, place: Place) -> None:
        store, namespace, self._clock = place
        self._keys = RoutingKeys(namespace)
        self._store = store.clone()
        self._hearts: dict[object, Profile] = {}
        self._calling = asyncio.Lock()
        self._beating = asyncio.create_task(Loop(self._beat, every_s=BEAT_S, jitter=0).run())

    @property
    def client(self) -> Client:
        """The way to the store."""
        return self._store.hot

    @asynccontextmanager
    async def beating(self, profile: Profile) -> AsyncGenerator[None]:
        """Let a worker's heart beat while inside."""
        heart = object()
        self._hearts[heart] = profile
        try:
            yield
        finally:
            del self._hearts[heart]
            # A call under way still names it, and would register it again after it has left.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_BEAT_S), self._calling:
                    pass

    async def close(self) -> None:
        """Hang up."""
        await end([self._beating])
        await self._store.close()

    async def _beat(self) -> None:
        now = self._clock.now_ms() if self._clock else SERVER_TIME
        async with self._calling:
            profiles = list(self._hearts.values())
            for first in range(0, len(profiles), BEATS_PER_CALL):
                some = profiles[first : first + BEATS_PER_CALL]
                await registry.beat(self.client, self._keys, *some, now=now)


async def _made(place: Place) -> Heartbeats:
    return Heartbeats(place)


heartbeats = Shared(_made, Heartbeats.close)
"""One for each place, for as long as a worker there renews its leases."""


PER_CALL = 1_000
"""Jobs in one step; a script can take only so many values in hand at once."""
PAGE = 200
"""Claims of all workers that are looked through in one step."""

_LEAVE_WITHIN_S = 1.0
"""A store that does not answer keeps nobody from leaving."""


class ClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are claimed."""

    lease_ms: int = 30_000
    result_limit: int = codec.PAYLOAD_LIMIT
    """Bytes of JSON that a result may have; a larger one fails its job."""
    announce: bool = True
    """Whether the worker shows up in the registry; sources without a worker need not."""


class RoutingSource:
    """The line as one worker sees it."""

    def __init__(
        self,
        store: Store,
        keys: RoutingKeys,
        profile: Profile,
        options: ClaimOptions | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._client: Client = store.hot
        self._keys = keys
        self._profile = profile
        self._matched = profile.matched()
        self._options = options or ClaimOptions()
        self._clock = clock
        self._timer = clock or SystemClock()
        self._records = Records(profile, result_limit=self._options.result_limit, clock=clock)
        self._place = (store, keys.namespace, clock)
        self._wakes = Wakes(self._place, profile)
        self._lost: LostAnswers[Job, Record] = LostAnswers()

    async def open(self) -> None:
        """Show up in the registry."""
        if self._options.announce:
            await registry.beat(self._client, self._keys, self._profile, now=self._now())

    async def close(self) -> None:
        """Leave the registry; where the store is away, its missing heartbeat says so."""
        await self._wakes.close()
        if self._options.announce:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_LEAVE_WITHIN_S):
                    await registry.leave(self._client, self._keys, self._profile, now=self._now())

    async def settle(self, settled: Sequence[Settled[Job]], *, claim: int) -> Reply[Job]:
        """File outcomes away and claim up to `claim` more, in one round trip."""
        in_doubt = self._lost.in_doubt
        sent = [in_doubt.get(each.claim) or self._records.of(each) for each in settled]
        stored: list[Settled[Job]] = []
        refused: list[Refused[Job]] = []
        found: list[Claim[Job]] = []
        with self._lost.settling(sent) as tokens:
            *pages, last = _pages(sent)
            for page in pages:
                _, settlement = await self._call(_flat(page), 0)
                await self._sort(page, settlement.codes, stored, refused)
            if self._lost.tokens:
                found = await self._lost.find(self._find_held)
                tokens.update(each.token for each in found)
            claim = max(0, claim - len(found))
            token, settlement = await self._call(_flat(last), claim)
            tokens.add(token)
            await self._sort(last, settlement.codes, stored, refused)
            claims = await self._claimed(settlement, token)
            # All that came was unreadable, or there are signatures still to be compared.
            while claim and not claims and (settlement.claims or settlement.unread):
                token, settlement = await self._call((), claim)
                tokens.add(token)
                claims = await self._claimed(settlement, token)
        if claim:
            self._wakes.answered(settlement, full=len(claims) >= claim)
        elif not settled:
            self._wakes.pass_on()
        return Reply([*found, *claims], refused, stored)

    async def _sort(
        self,
        sent: Sequence[Sent],
        codes: Sequence[int],
        stored: list[Settled[Job]],
        refused: list[Refused[Job]],
    ) -> None:
        """Put each outcome among those that were stored, or those that were not."""
        for (each, record), code in zip(sent, codes, strict=True):
            if not code or (each.claim in self._lost.in_doubt and await self._was_filed(record)):
                stored.append(each)
            else:
                refused.append(Refused(each.claim, _refusal(code, each.claim.id)))

    async def _was_filed(self, record: Record) -> bool:
        """Whether an outcome was filed by a call whose answer was lost.

        What is kept of an attempt has the instant and the time it took, so no two are the same.
        """
        if record[0] == "returned":
            return True
        result = record[3 if record[0] == "completed" else 4]
        key = self._keys.of(str(record[1])).result
        return await ask(self._client, "GET", key) == result

    async def _call(self, outcomes: Record, want: int) -> tuple[str, Settlement]:
        with self._lost.calling(want) as token:
            settlement = await scripts.settle(
                self._client,
                self._keys,
                now=self._now(),
                token=token,
                lease_ms=self._options.lease_ms,
                want=want,
                profile=self._matched,
                worker=self._profile.server,
                keep_s=KEPT_S,
                outcomes=outcomes,
            )
        return token, settlement

    async def _claimed(self, settlement: Settlement, token: str) -> list[Claim[Job]]:
        raw = settlement.claims
        return await self._claims((raw[at], raw[at + 1], token) for at in range(0, len(raw), 2))

    async def _find_held(self, tokens: Sequence[str]) -> list[Claim[Job]]:
        """The jobs that are held with one of these tokens."""
        # A look in pages may see one twice.
        held: dict[bytes, tuple[bytes, bytes, str]] = {}
        cursor = 0
        while True:
            found, after = await scripts.find_held(
                self._client, self._keys, batch=PAGE, cursor=cursor, tokens=tokens
            )
            for id, token, data in zip(found[::3], found[1::3], found[2::3], strict=True):
                held[id] = (id, data, token.decode())
            if not (cursor := int(after)):
                return await self._claims(held.values())

    async def _claims(self, found: Iterable[tuple[bytes, bytes, str]]) -> list[Claim[Job]]:
        """What was claimed, from id, data and token of each; what cannot be read is dead."""
        claims: list[Claim[Job]] = []
        unreadable: list[str | bytes | int] = []
        for id, data, token in found:
            try:
                name = text_of(id)
                claims.append(Claim(name, HeldJob(name, data, self, token), token))
            except Exception as error:
                # Whatever is wrong with one job costs that job alone.
                why = error if isinstance(error, Malformed) else Malformed(repr(error))
                unreadable += self._records.dead(id, token, data, why, attempt=1, took_s=0)
        if unreadable:
            await self._call(unreadable, 0)
        return claims

    async def wait(self, at_most: float) -> None:
        """Return when there may be work, or nobody has looked for that many seconds."""
        await self._wakes.wait(at_most)

    async def store_progress(
        self, id: str, token: str, percent: float, message: str, data: object
    ) -> None:
        """Store how far a job is; LeaseLost when another worker holds it."""
        page = {
            "percent": percent,
            "message": message,
            "data": data,
            "updatedAt": self._timer.now_ms(),
        }
        await scripts.report_progress(
            self._client,
            self._keys,
            now=self._now(),
            id=id,
            token=token,
            progress=codec.encode(page),
            percent=percent,
            keep_s=KEPT_S,
        )

    @contextlib.asynccontextmanager
    async def keeper(self) -> AsyncGenerator[Extend]:
        """Open the way to renew leases, and keep the heart beating.

        Both happen outside the handlers' way: one that computes for a minute does not look dead.
        The workers of a process share the connection and send their heartbeats together.
        """
        async with heartbeats.using(self._place) as shared:

            async def extend(claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
                return await self._extend(shared.client, claims)

            async with shared.beating(self._profile) if self._options.announce else nullcontext():
                yield extend

    async def _extend(self, client: Client, claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
        lost: list[Claim[Any]] = []
        for first in range(0, len(claims), PER_CALL):
            page = claims[first : first + PER_CALL]
            places = await scripts.extend(
                client,
                self._keys,
                now=self._now(),
                lease_ms=self._options.lease_ms,
                worker=self._profile.server,
                held=[text for claim in page for text in (claim.id, claim.token)],
            )
            lost += [page[place - 1] for place in places]
        return lost

    def _now(self) -> str | int:
        return script_time(self._clock)


def _pages(sent: Sequence[Sent]) -> list[Sequence[Sent]]:
    """As many as one step takes, and one page at least."""
    return [sent[at : at + PER_CALL] for at in range(0, max(len(sent), 1), PER_CALL)]


def _flat(sent: Sequence[Sent]) -> list[str | bytes | int]:
    return [part for _, record in sent for part in record]


def _refusal(code: int, id: str) -> WaystationError:
    match code:
        case -1:
            return NotFound(f"job {id} is gone")
        case -3:
            return Cancelled(f"job {id} was cancelled")
        case -6:
            return LeaseLost(f"job {id} is held by somebody else")
        case _:
            return LeaseLost(f"the lease of job {id} is over")


class Records:
    """Writes the records of one worker's outcomes."""

    def __init__(self, profile: Profile, *, result_limit: int, clock: Clock | None) -> None:
        self._worker = profile.server
        self._result_limit = result_limit
        self._clock = clock or SystemClock()
        self._rng = random.Random()

    def of(self, settled: Settled[Job]) -> Sent:
        """The outcome as it will be stored, and what is sent for it."""
        claim = settled.claim
        match settled.outcome:
            case Done(result):
                return self._done(settled, result)
            case Failed(error):
                try:
                    outcome, record = self._failed(settled, error)
                except Exception as unwritable:
                    # It was read, but cannot be written with one more attempt: it ends here.
                    outcome, record = self._last(settled, Malformed(repr(unwritable)))
                return Settled(claim, outcome, settled.took_s), record
            case _:
                return settled, ("returned", claim.id, claim.token)

    def _done(self, settled: Settled[Job], value: object) -> Sent:
        claim, job = settled.claim, settled.claim.work
        try:
            result = success(value, self._clock.now_ms(), settled.took_s, limit=self._result_limit)
        except InvalidResult as error:
            return self.of(Settled(claim, Failed(error), settled.took_s))
        attempt = job.attempts + 1
        has_progress = int(isinstance(job, HeldJob) and job.has_progress)
        return settled, ("completed", claim.id, claim.token, result, attempt, has_progress)

    def _failed(self, settled: Settled[Job], error: BaseException) -> tuple[Stored, Record]:
        claim, job = settled.claim, settled.claim.work
        made, retry = job.attempts + 1, job.retry
        data = rewritten(job.raw, attempts=made)
        if _is_last(retry, error, made):
            return self._last(settled, error, data)
        route = ""
        if _is_one_of(error, retry.reroute_on):
            avoid = tuple(sorted({*job.target.avoid, self._worker}))
            target = msgspec.structs.replace(job.target, avoid=avoid)
            data = rewritten(data, target=target)
            route = route_of(job, target)
        result = failure(
            error, self._clock.now_ms(), settled.took_s, trace=trace_text(error, limit=20)
        )
        pause = delay_ms(retry.backoff, made, self._rng)
        reason = type(error).__name__
        record = ("retry", claim.id, claim.token, data, result, pause, route, reason, made)
        return Retried(error, made, pause), record

    def _last(
        self, settled: Settled[Job], error: BaseException, data: bytes | None = None
    ) -> tuple[Stored, Record]:
        claim, made = settled.claim, settled.claim.work.attempts + 1
        record = self.dead(
            claim.id,
            claim.token,
            claim.work.raw if data is None else data,
            error,
            attempt=made,
            took_s=settled.took_s,
        )
        return Failed(error, made), record

    def dead(
        self,
        id: str | bytes,
        token: str,
        data: bytes,
        error: BaseException,
        *,
        attempt: int,
        took_s: float,
    ) -> Record:
        """The record that puts a job among the dead letters."""
        now = self._clock.now_ms()
        result = failure(error, now, took_s, trace=trace_text(error, limit=20))
        meta = dead_letter_meta(error, attempt, now, self._worker)
        return ("dead", id, token, data, result, meta, attempt)


def delay_ms(rule: BackoffRule, attempt: int, rng: Dice) -> int:
    """Milliseconds to wait after the attempt of that number, the first being 1."""
    if not (first_ms := milliseconds(rule.delay)):
        return 0
    backoff = Backoff(
        Growth(rule.type),
        first_ms,
        jitter=0.25 if rule.jitter else 0.0,
        cap_ms=max(milliseconds(rule.max_delay), first_ms),
    )
    return backoff.pause_ms(attempt, rng)


def _is_last(retry: Retry, error: BaseException, made: int) -> bool:
    if made >= retry.attempts or isinstance(error, Unrecoverable):
        return True
    return _is_one_of(error, retry.skip_on)


def _is_one_of(error: BaseException, names: Sequence[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)
