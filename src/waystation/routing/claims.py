"""How jobs get out: matched, claimed and settled in batches, under leases that others respect."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import msgspec

from waystation.core import codec, identity
from waystation.core.clock import Clock
from waystation.core.errors import (
    InvalidResult,
    LeaseLost,
    Malformed,
    NotFound,
    StoreError,
    StoreUnreachable,
    WaystationError,
)
from waystation.core.failure import trace_text
from waystation.core.outcome import Done, Failed, Retried, Stored
from waystation.core.runtime.claim import Claim, Extend, Refused, Reply, Settled
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.store.script import Client
from waystation.routing import registry
from waystation.routing.job import Job, rewritten, route_of, text_of
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.redis.scripts import SERVER_TIME, Settlement
from waystation.routing.registry import Profile, lifelines
from waystation.routing.results import KEPT_S, about_the_dead, failure, success
from waystation.routing.wakes import Wakes

Record: TypeAlias = Sequence[str | bytes | int]
"""An outcome as the settling script takes it."""

Sent: TypeAlias = tuple[Settled[Job], Record]
"""An outcome as it will be stored, and what is sent for it."""

PER_CALL = 1_000
"""Jobs in one step; a script can take only so many values in hand at once."""

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
        # Only tests bring a clock; otherwise the server says what time it is.
        self._clock = clock
        self._token = identity.lease_token()
        self._calls = 0
        self._dice = random.Random()
        self._place = (store, keys.namespace, clock)
        self._wakes = Wakes(self._place, profile)
        self._lost_answers: set[str] = set()
        self._in_doubt: dict[Claim[Job], Sent] = {}
        """What was sent with calls whose answers were lost."""

    async def open(self) -> None:
        """Show up in the registry."""
        if self._options.announce:
            await registry.beat(self._client, self._keys, self._profile, now=self._now())

    async def close(self) -> None:
        """Leave the registry; where the store is away, the heartbeat tells by its silence."""
        await self._wakes.close()
        if self._options.announce:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_LEAVE_WITHIN_S):
                    await registry.leave(self._client, self._keys, self._profile, now=self._now())

    async def settle(self, settled: Sequence[Settled[Job]], *, claim: int) -> Reply[Job]:
        """File outcomes away and claim up to `claim` more, in one round trip."""
        sent = [self._in_doubt.get(each.claim) or self._record(each) for each in settled]
        stored: list[Settled[Job]] = []
        refused: list[Refused[Job]] = []
        found: list[Claim[Job]] = []
        tokens: set[str] = set()
        try:
            *pages, last = _pages(sent)
            for page in pages:
                _, settlement = await self._call(_flat(page), 0)
                await self._sort(page, settlement.codes, stored, refused)
            if self._lost_answers:
                found = await self._find_lost_claims()
                tokens.update(each.token for each in found)
            claim = max(0, claim - len(found))
            token, settlement = await self._call(_flat(last), claim)
            tokens.add(token)
            await self._sort(last, settlement.codes, stored, refused)
            while settlement.unread and not settlement.claims:
                token, settlement = await self._call((), claim)
            raw = settlement.claims
            claims = await self._claims(
                (raw[at], raw[at + 1], token) for at in range(0, len(raw), 2)
            )
        except StoreError:
            # The whole is asked for again: what was claimed is found then, and what was filed
            # must not seem refused.
            self._lost_answers |= tokens
            self._in_doubt = {each[0].claim: each for each in sent} | self._in_doubt
            raise
        if self._in_doubt:
            for each in settled:
                self._in_doubt.pop(each.claim, None)
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
            if not code or (each.claim in self._in_doubt and await self._was_filed(record)):
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
        with faults.translated():
            key = self._keys.of(str(record[1])).result
            return await self._client.execute_command("GET", key) == result

    async def _call(self, outcomes: Record, want: int) -> tuple[str, Settlement]:
        self._calls += 1
        token = f"{self._token}:{self._calls}"
        try:
            settlement = await scripts.settle(
                self._client,
                self._keys,
                namespace=self._keys.namespace,
                now=self._now(),
                token=token,
                lease_ms=self._options.lease_ms,
                want=want,
                profile=self._matched,
                worker=self._profile.server_id,
                keep_s=KEPT_S,
                outcomes=outcomes,
            )
        except StoreUnreachable:
            if want:
                self._lost_answers.add(token)
            raise
        if want:
            self._wakes.answered(settlement, full=len(settlement.claims) >= 2 * want)
        elif not outcomes:
            self._wakes.pass_on()
        return token, settlement

    async def _find_lost_claims(self) -> list[Claim[Job]]:
        # A call whose answer was lost may have claimed jobs: they are ours, and nobody works on
        # them. Left alone they would stall, and a job that stalls too often is given up.
        # Whoever looks for them takes their tokens along, so that no other call finds them, too.
        tokens, self._lost_answers = self._lost_answers, set()
        try:
            found = await scripts.find_held(
                self._client, self._keys, namespace=self._keys.namespace, tokens=sorted(tokens)
            )
        except StoreError:
            self._lost_answers |= tokens
            raise
        return await self._claims(
            (found[at], found[at + 2], found[at + 1].decode()) for at in range(0, len(found), 3)
        )

    async def _claims(self, found: Iterable[tuple[bytes, bytes, str]]) -> list[Claim[Job]]:
        """What was claimed, from id, data and token of each; what cannot be read is dead."""
        claims: list[Claim[Job]] = []
        unreadable: list[str | bytes | int] = []
        tokens: set[str] = set()
        for id, data, token in found:
            tokens.add(token)
            try:
                name = text_of(id)
                claims.append(Claim(name, Job(name, data, told=self, token=token), token))
            except Malformed as error:
                unreadable += self._dead(id, token, data, error, attempt=1, took_s=0)
        if unreadable:
            try:
                await self._call(unreadable, 0)
            except StoreError:
                # The whole is asked for again, and what it has claimed is found then.
                self._lost_answers |= tokens
                raise
        return claims

    def _record(self, settled: Settled[Job]) -> Sent:
        """The outcome as it will be stored, and what is sent for it."""
        claim = settled.claim
        match settled.outcome:
            case Done(result):
                return self._done(settled, result)
            case Failed(error):
                outcome, record = self._failed(settled, error)
                return Settled(claim, outcome, settled.took_s), record
            case _:
                return settled, ("returned", claim.id, claim.token)

    def _done(self, settled: Settled[Job], value: object) -> Sent:
        claim, job = settled.claim, settled.claim.work
        try:
            limit = self._options.result_limit
            result = success(value, self._now_ms(), settled.took_s, limit=limit)
        except InvalidResult as error:
            return self._record(Settled(claim, Failed(error), settled.took_s))
        attempt = job.attempts + 1
        return settled, ("completed", claim.id, claim.token, result, attempt, int(job.progressed))

    def _failed(self, settled: Settled[Job], error: BaseException) -> tuple[Stored, Record]:
        claim, job = settled.claim, settled.claim.work
        made = job.attempts + 1
        data = rewritten(job.raw, attempts=made)
        if job.retry.ends_with(error, made):
            return Failed(error, made), self._dead(
                claim.id, claim.token, data, error, attempt=made, took_s=settled.took_s
            )
        route = ""
        if job.retry.moves_on(error):
            avoid = tuple(sorted({*job.target.avoid, self._profile.server_id}))
            target = msgspec.structs.replace(job.target, avoid=avoid)
            data = rewritten(data, target=target)
            route = route_of(job, target)
        result = failure(error, self._now_ms(), settled.took_s, trace=trace_text(error, limit=20))
        pause = job.retry.backoff.pause_ms(made, self._dice)
        reason = type(error).__name__
        record = ("retry", claim.id, claim.token, data, result, pause, route, reason, made)
        return Retried(error, made, pause), record

    def _dead(
        self,
        id: str | bytes,
        token: str,
        data: bytes,
        error: BaseException,
        *,
        attempt: int,
        took_s: float,
    ) -> Record:
        now = self._now_ms()
        result = failure(error, now, took_s, trace=trace_text(error, limit=20))
        meta = about_the_dead(error, attempt, now, self._profile.server_id)
        return ("dead", id, token, data, result, meta, attempt)

    async def wait(self, at_most: float) -> None:
        """Return when there may be work, or nobody has looked for that many seconds."""
        await self._wakes.wait(at_most)

    async def progress(self, job: Job, percent: float, message: str, data: object) -> None:
        """Keep how far a job is; raises `LeaseLost` when somebody else holds it."""
        page = {
            "percent": percent,
            "message": message,
            "data": data,
            "updatedAt": self._now_ms(),
        }
        await scripts.report_progress(
            self._client,
            self._keys,
            namespace=self._keys.namespace,
            now=self._now(),
            id=job.id,
            token=job.token,
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
        async with lifelines.using(self._place) as lifeline:

            async def extend(claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
                return await self._extend(lifeline.client, claims)

            with lifeline.beating(self._profile) if self._options.announce else nullcontext():
                yield extend

    async def _extend(self, client: Client, claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
        lost: list[Claim[Any]] = []
        for first in range(0, len(claims), PER_CALL):
            page = claims[first : first + PER_CALL]
            places = await scripts.extend(
                client,
                self._keys,
                namespace=self._keys.namespace,
                now=self._now(),
                lease_ms=self._options.lease_ms,
                worker=self._profile.server_id,
                held=[text for claim in page for text in (claim.id, claim.token)],
            )
            lost += [page[place - 1] for place in places]
        return lost

    def _now(self) -> str | int:
        return self._clock.now_ms() if self._clock else SERVER_TIME

    def _now_ms(self) -> int:
        return self._clock.now_ms() if self._clock else time.time_ns() // 1_000_000


def _pages(sent: Sequence[Sent]) -> list[Sequence[Sent]]:
    """As many as one step takes, and one page at least."""
    return [sent[at : at + PER_CALL] for at in range(0, max(len(sent), 1), PER_CALL)]


def _flat(sent: Sequence[Sent]) -> list[str | bytes | int]:
    return [part for _, record in sent for part in record]


def _refusal(code: int, id: str) -> WaystationError:
    match code:
        case -1:
            return NotFound(f"job {id} is gone")
        case -6:
            return LeaseLost(f"job {id} is held by somebody else")
        case _:
            return LeaseLost(f"the lease of job {id} is over")
