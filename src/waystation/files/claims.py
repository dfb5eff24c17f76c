"""The queue as a source of files: claimed into the worker's own list, settled by leaving it.

The bytes that were fetched are the lease. An outcome counts if those bytes are still in the
worker's list, and every failure changes them, so whoever comes late finds nothing to end.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Container, Iterable, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import Any, cast

from waystation.core import codec, identity
from waystation.core.breaker import BreakerOptions, Permit
from waystation.core.clock import Clock, SystemClock, script_time
from waystation.core.durations import milliseconds, seconds
from waystation.core.errors import LeaseLost, Malformed, StoreError
from waystation.core.line.lost_answers import LOST, LostAnswers
from waystation.core.line.wake_up import WakeUp
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Extend, Refused, Reply, Settled
from waystation.core.runtime.loop import Loop
from waystation.core.runtime.tasks import end
from waystation.core.store.commands import ask, newest_first
from waystation.core.store.connection import Store
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import describe, get_logger
from waystation.files import job as jobs
from waystation.files.fetch import FetchPlanner, HandledFiles, Picks, Plan, UnmatchedFiles, resolve
from waystation.files.job import Job
from waystation.files.metrics import Meter
from waystation.files.options import WorkerOptions
from waystation.files.reasons import Reason, reason_of
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import (
    Record,
    as_stored,
    dead,
    failure,
    handed_back,
    reason_in,
    skipped,
    success,
)
from waystation.files.redis.replies import Settlement

_log = get_logger(__name__)


class FileClaim(Claim[Job]):
    """A job that is ours while its bytes are in our list."""

    __slots__ = ("lane", "permit", "raw")

    def __init__(self, job: Job, raw: bytes, lane: int, *, worker: str) -> None:
        super().__init__(job.id, job, worker)
        self.raw = raw
        self.lane = lane
        self.permit: Permit | None = None


class Reader:
    """Decodes the payloads that one worker fetched."""

    def __init__(
        self, keys: FileKeys, worker: str, unmatched: UnmatchedFiles, meter: Meter | None
    ) -> None:
        self._keys = keys
        self._worker = worker
        self._unmatched = unmatched
        self._meter = meter
        self.aside: list[Record] = []
        """Records for the next call: what is no job, and what other workers have handlers for."""

    def claims(self, raws: Iterable[bytes], lane: int = 0) -> list[FileClaim]:
        """Claims of those payloads that this worker can process."""
        claims: list[FileClaim] = []
        for raw in raws:
            try:
                job = jobs.read(raw)
            except Malformed as error:
                self._set_poison_aside(raw, lane or len(self._keys.queues), error)
                continue
            at = lane or self._keys.lane_of(job.origin_queue, job.priority)
            if self._unmatched.is_wanted(job):
                claims.append(FileClaim(job, raw, at, worker=self._worker))
            else:
                self.aside.append(skipped(raw, job.id, at, job.attempt))
                if self._meter:
                    self._meter.skipped(at)
        return claims

    def _set_poison_aside(self, raw: bytes, lane: int, error: Malformed) -> None:
        # It ends with the next call: a list with something unreadable in it must move on.
        name = jobs.poison_id(raw)
        queue = self._keys.queues[lane - 1]
        _log.error("job_unreadable", job_id=name, queue=queue, **describe(error))
        self.aside.append(dead(raw, name, lane, 1, raw, Reason.MALFORMED, error))
        if self._meter:
            self._meter.failed(lane, Reason.MALFORMED, again=False)


class FileSource:
    """The line as one worker sees it."""

    def __init__(
        self,
        store: Store,
        keys: FileKeys,
        options: WorkerOptions | None = None,
        *,
        worker: str | None = None,
        breaker: BreakerOptions | None = None,
        meter: Meter | None = None,
        clock: Clock | None = None,
        handles: HandledFiles | None = None,
    ) -> None:
        self.worker = worker or identity.worker_name()
        self._store = store
        self._client: Client = store.hot
        self._keys = keys.of(self.worker)
        self._options = options = options or WorkerOptions()
        self._ttl_ms = milliseconds(options.lease)
        self._clock = clock
        self._timer = clock or SystemClock()
        self._meter = meter
        self.planner = FetchPlanner(
            self._keys.queues,
            breaker=breaker,
            weights=self._options.weights,
            clock=self._timer,
            meter=meter,
        )
        self._wake = WakeUp(store, "BLPOP", self._keys.wake)
        self._held: set[FileClaim] = set()
        self._found: list[bytes] = []
        self._handlers = codec.encode(list(handles.patterns)).decode() if handles else ""
        self._unmatched = UnmatchedFiles(self._keys, handles.wants if handles else None)
        self._reader = Reader(self._keys, self.worker, self._unmatched, meter)
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._finding = asyncio.Lock()
        self._in_doubt = False
        self._lost: LostAnswers[Job, Record] = LostAnswers()

    async def open(self) -> None:
        """Show up among the workers, before anything is fetched."""
        await self._renew(self._client)

    async def close(self) -> None:
        """Hand back what nobody works on, and leave."""
        await self._wake.close()
        try:
            returned = [
                handed_back(claim.raw, claim.id, claim.lane, claim.work.attempt)
                for claim in self._reader.claims(self._found)
            ]
            await self._call([*self._reader.aside, *returned], 0)
            await scripts.leave(self._client, self._keys, worker=self.worker)
        except StoreError as error:
            _log.warning("worker_not_unregistered", worker_id=self.worker, **describe(error))

    # --- the seam --------------------------------------------------------------------------------

    async def settle(self, settled: Sequence[Settled[Job]], *, claim: int) -> Reply[Job]:
        """File outcomes away and fetch up to `claim` more, in one round trip."""
        if self._in_doubt:
            await self._find_lost_claims()
        mine, others = _by_holder(settled, self.worker)
        refused: list[Refused[Job]] = []
        stored: list[Settled[Job]] = []
        for group in others:
            await self._settle_for(group, stored, refused)
        found = self._take_found(claim)
        claim -= len(found)
        if not (mine or claim or self._reader.aside):
            return Reply(found, refused, stored)
        aside, self._reader.aside = self._reader.aside, []
        sent = self._to_send(mine)
        try:
            with self._lost.settling(sent):
                if claim:
                    await self._unmatched.look(self._client)
                records = [record for _, record in sent]
                settlement, claims = await self._call([*aside, *records], claim)
                codes = settlement.codes[len(aside) :]
                aside, found = [], [*found, *claims]
                await self._sort(sent, codes, stored, refused)
        except LOST:
            self._reader.aside = aside + self._reader.aside
            self._held.difference_update(found)
            self._found = [each.raw for each in found] + self._found
            raise
        self._held.difference_update(cast(FileClaim, each.claim) for each in mine)
        return Reply(found, refused, stored)

    async def wait(self, at_most: float) -> None:
        """Return when there may be work."""
        if self._reader.aside or self._unmatched.has_new:
            return
        if shut := self.planner.closed_for_s():
            await asyncio.sleep(min(shut, at_most))
            return
        await self._wake.wait(min(at_most, seconds(self._options.poll)))

    @contextlib.asynccontextmanager
    async def keeper(self) -> AsyncGenerator[Extend]:
        """Keep the worker's heartbeat going, and the way to ask what is still ours."""
        store = self._store.clone()

        async def extend(claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
            listed = Counter(await self._renew(store.redis))
            lost: list[Claim[Any]] = []
            for each in claims:
                raw = cast(FileClaim, each).raw
                listed[raw] -= 1
                if listed[raw] < 0:
                    lost.append(each)
            self._held.difference_update(cast(list[FileClaim], lost))
            return lost

        async def beat() -> None:
            # An idle worker is alive too, and nobody else renews for it.
            await self._renew(store.redis)

        every_s = seconds(self._options.lease) / 3
        beating = asyncio.create_task(Loop(beat, every_s=every_s, jitter=0).run())
        try:
            yield extend
        finally:
            await end([beating])
            await store.close()

    # --- calls -----------------------------------------------------------------------------------

    async def _call(
        self, records: Sequence[Record], want: int
    ) -> tuple[Settlement, list[FileClaim]]:
        plan, picks = self.planner.plan(want), self._unmatched.reserve(want)
        self._under_way += 1
        try:
            settlement = await self._send(self._keys, self.worker, records, want, plan, picks)
        except LOST:
            # It may have fetched something whose answer never came.
            self._in_doubt = self._in_doubt or want > 0
            plan.release()
            self._unmatched.release(picks)
            raise
        finally:
            self._under_way -= 1
            if self._in_doubt and not self._under_way:
                self._quiet.set()
        claims = [
            each
            for lane, raws in enumerate(settlement.fetched, 1)
            if raws
            for each in self._reader.claims(raws, lane)
        ]
        self._held.update(claims)
        for each in claims:
            each.permit = self.planner.permit(each.lane, plan)
        plan.release()
        self._unmatched.release(picks, settlement.tried)
        self._unmatched.settled(settlement)
        if want and settlement.due_in_ms:
            self._wake.expect(settlement.due_in_ms)
        return settlement, claims

    async def _send(
        self,
        keys: FileKeys,
        worker: str,
        records: Sequence[Record],
        want: int,
        plan: Plan,
        picks: Picks,
    ) -> Settlement:
        options = self._options
        return await scripts.settle(
            self._client,
            keys,
            now=self._now,
            worker=worker,
            ttl_ms=self._ttl_ms,
            completed_cap=options.completed_max_len,
            events_cap=options.events_max_len,
            want=want,
            plan=plan.text,
            picks=picks.text,
            cursor=self._unmatched.cursor,
            outcomes=[part for record in records for part in record],
        )

    async def _settle_for(
        self,
        group: Sequence[Settled[Job]],
        stored: list[Settled[Job]],
        refused: list[Refused[Job]],
    ) -> None:
        """Settle what another worker fetched; it is still the one that holds it."""
        worker = group[0].claim.token
        sent = self._to_send(group)
        keys, plan = self._keys.of(worker), self.planner.plan(0)
        with self._lost.settling(sent):
            records = [record for _, record in sent]
            settlement = await self._send(keys, worker, records, 0, plan, Picks([]))
            await self._sort(sent, settlement.codes, stored, refused)

    async def _renew(self, client: Client) -> list[bytes]:
        return await scripts.renew(
            client,
            self._keys,
            now=self._now,
            worker=self.worker,
            ttl_ms=self._ttl_ms,
            handlers=self._handlers,
        )

    async def _find_lost_claims(self) -> None:
        # A call whose answer was lost may have filled our list with jobs that nobody works on,
        # and no reaper takes them while we are alive. When no call is under way, whatever is in
        # the list beyond what we hold came that way.
        async with self._finding:
            if not self._in_doubt:
                return
            while self._under_way:
                self._quiet.clear()
                await self._quiet.wait()
            listed = await self._renew(self._client)
            # Counted, because the same bytes may have been put in line twice; copied, because the
            # keeper takes out what is lost from a thread of its own.
            known = Counter(each.raw for each in list(self._held))
            known.update([*self._found, *(cast(bytes, record[1]) for record in self._reader.aside)])
            self._in_doubt = False
            for raw in reversed(listed):
                known[raw] -= 1
                if known[raw] < 0:
                    self._found.append(raw)

    @property
    def _now(self) -> str | int:
        return script_time(self._clock)

    # --- bytes to claims, outcomes to records ----------------------------------------------------

    def _take_found(self, most: int) -> list[FileClaim]:
        if not self._found or not most:
            return []
        raws, self._found = self._found[:most], self._found[most:]
        claims = self._reader.claims(raws)
        self._held.update(claims)
        return claims

    def _to_send(self, settled: Sequence[Settled[Job]]) -> list[tuple[Settled[Job], Record]]:
        """What is sent for each outcome; the same as before for one in doubt."""
        in_doubt = self._lost.in_doubt
        return [in_doubt.get(each.claim) or (each, self._record(each)) for each in settled]

    def _record(self, settled: Settled[Job]) -> Record:
        claim = cast(FileClaim, settled.claim)
        match settled.outcome:
            case Done():
                resolve(claim.permit, None)
                return success(claim.raw, claim.id, claim.lane, claim.work.attempt, settled.took_s)
            case Failed(error):
                resolve(claim.permit, reason_of(error, claim.work.path))
                queue = self._keys.queues[claim.lane - 1]
                return failure(claim.raw, claim.work, claim.lane, queue, error, self._options)
            case _:
                resolve(claim.permit, Reason.CANCELLED)
                return handed_back(claim.raw, claim.id, claim.lane, claim.work.attempt)

    async def _sort(
        self,
        sent: Sequence[tuple[Settled[Job], Record]],
        codes: Sequence[int],
        stored: list[Settled[Job]],
        refused: list[Refused[Job]],
    ) -> None:
        """Put each outcome among those that were stored, or those that came too late."""
        if self._lost.in_doubt:
            codes = await cleared(self._client, self._keys, sent, codes, self._lost.in_doubt)
        for (each, record), code in zip(sent, codes, strict=True):
            claim = cast(FileClaim, each.claim)
            if code:
                lost = LeaseLost(f"job {claim.id} is no longer held by {claim.token}")
                refused.append(Refused(claim, lost))
            elif isinstance(each.outcome, Failed):
                if self._meter:
                    self._meter.failed(claim.lane, reason_in(record), again=record[0] == "retry")
                outcome = as_stored(each.outcome.error, claim.work.attempt, record)
                stored.append(Settled(claim, outcome, each.took_s))
            else:
                stored.append(each)

    def about(self, claim: Claim[Job]) -> dict[str, str | int]:
        """What the log says about a job."""
        job = claim.work
        known: dict[str, str | int] = {
            "queue": self._keys.queues[cast(FileClaim, claim).lane - 1],
            "worker_id": claim.token,
            "attempt": job.attempt,
        }
        if job.trace_id and job.span_id:
            known |= {"trace_id": job.trace_id, "span_id": job.span_id}
        return known


def _by_holder(
    settled: Sequence[Settled[Job]], worker: str
) -> tuple[Sequence[Settled[Job]], list[list[Settled[Job]]]]:
    """What we hold ourselves, and what each other worker holds."""
    if not [each for each in settled if each.claim.token != worker]:
        return settled, []
    by_holder = groupby(
        sorted(settled, key=lambda each: each.claim.token), key=lambda each: each.claim.token
    )
    groups = {holder: list(group) for holder, group in by_holder}
    return groups.pop(worker, []), list(groups.values())


async def cleared(
    client: Client,
    keys: FileKeys,
    sent: Sequence[tuple[Settled[Job], Record]],
    codes: Sequence[int],
    in_doubt: Container[Claim[Job]],
) -> Sequence[int]:
    """The codes of one worker's outcomes, but 0 for those that an earlier call has stored.

    When an outcome is sent again because the answer to its call was lost, and refused, the first
    call may have been the one that filed it. A completed file is remembered by its bytes, which
    every failure changes; how other attempts ended is recorded in the queue's events.
    """
    codes = list(codes)
    doubted = [at for at, code in enumerate(codes) if code and sent[at][0].claim in in_doubt]
    if doubted:
        records = [sent[at][1] for at in doubted]
        filed = await _filed_before(client, keys, records, worker=sent[0][0].claim.token)
        for at in (at for at, was_filed in zip(doubted, filed, strict=True) if was_filed):
            codes[at] = 0
    return codes


async def _filed_before(
    client: Client, keys: FileKeys, records: Sequence[Record], *, worker: str
) -> list[bool]:
    """Whether each outcome was filed by an earlier call of its worker."""
    filed = [await _is_plain(client, keys, record) for record in records]
    if not all(filed):
        known = await _recorded(client, keys, worker)
        filed = [
            was or _end_of(record) in known for was, record in zip(filed, records, strict=True)
        ]
    return filed


async def _is_plain(client: Client, keys: FileKeys, record: Record) -> bool:
    """Whether the lists show it; what was handed back is no longer ours, however that came."""
    kind, raw = record[:2]
    if kind != "completed":
        return kind == "returned"
    return await ask(client, "LPOS", keys.completed, raw) is not None


async def _recorded(client: Client, keys: FileKeys, worker: str) -> set[tuple[bytes, ...]]:
    """Event, file, attempt and reason of every end of this worker's that the events still hold."""
    name = worker.encode()
    async with aclosing(newest_first(client, keys.events)) as events:
        return {
            tuple(event.get(field, b"") for field in (b"event", b"subject", b"attempt", b"reason"))
            async for _, event in events
            if event.get(b"worker") == name
        }


def _end_of(record: Record) -> tuple[bytes, ...]:
    kind, _, id, _, attempt = record[:5]
    # A file that was taken back from a silent worker has another reason than ours in its event.
    reason = {"retry": 7, "dead": 6}.get(str(kind))
    parts = (kind, id, attempt, "" if reason is None else record[reason])
    return tuple(str(part).encode() for part in parts)
