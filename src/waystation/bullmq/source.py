"""One queue as a source of jobs: claimed and settled in batches, under BullMQ's locks. Internal.

`BullSource.settle` is the whole of it: outcomes become records, one call of `settle.lua` stores
them and claims the next jobs, and what it answers is read back.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from waystation.bullmq.fields import (
    CAUSE,
    COUNTED,
    FAILING,
    FailureCause,
    known,
    remember_result,
)
from waystation.bullmq.fields import remember as remember_fields
from waystation.bullmq.job import Job, QueueRef, has_undo, refusal_of, steps_of
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Backoff, Retention, growing, kept
from waystation.bullmq.payloads.envelope import refuse_imitation
from waystation.bullmq.payloads.sealing import SealedResult, Sealing
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.client import client_name
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.replies import Settlement
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.core import codec
from waystation.core.backoff import HOUR_MS
from waystation.core.clock import Clock, SystemClock, script_time
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.durations import Duration, milliseconds
from waystation.core.errors import (
    InvalidOption,
    InvalidResult,
    JobDelayed,
    JobRateLimited,
    JobWaiting,
    JobWaitingForChildren,
    LeaseLost,
    NoHandler,
    NotFound,
    StoreError,
    Unrecoverable,
    WaystationError,
    WrongState,
)
from waystation.core.failure import reason_text, trace_text
from waystation.core.line.lost_answers import LostAnswers
from waystation.core.line.wake_up import WakeUp
from waystation.core.options import at_least, of_kind
from waystation.core.outcome import Done, Failed, Moved, Retried, Returned, Stored
from waystation.core.runtime.claim import Claim, Extend, Refused, Reply, Settled
from waystation.core.runtime.tasks import leave_if_cancelled
from waystation.core.store.commands import newest_first
from waystation.core.store.connection import Store
from waystation.core.store.script import Client

BackoffStrategy: TypeAlias = Callable[
    [int, str, BaseException, Job], "Duration | Awaitable[Duration | None] | None"
]
"""Takes attempts made, the backoff's name, the error and the job; returns the pause before the next
attempt, or None for no more."""


RetryPredicate: TypeAlias = Callable[[BaseException, Job], bool]
"""Takes the error of a failed attempt and its job; False fails the job for good."""


class ClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are claimed and which finished ones are kept."""

    worker: str
    lock_duration: int = 30_000
    limiter: Limit | None = None
    max_backoff: int = HOUR_MS
    """The longest pause of an exponential backoff."""
    strategy: BackoffStrategy | None = None
    """Decides the pause of backoffs that are neither fixed nor exponential."""
    retry_if: RetryPredicate | None = None
    """Decides whether a failed attempt is followed by another."""
    repeat_strategy: RepeatStrategy | None = None
    """Decides when the next job of a scheduler with a pattern is due, instead of cron."""
    max_started_attempts: int | None = None
    remove_on_complete: Retention | None = None
    remove_on_fail: Retention | None = None
    result_limit: int = PAYLOAD_LIMIT
    """Bytes of JSON that a result may have; a larger one fails its job."""
    metrics_points: int | None = None
    """Minutes of metrics to keep; None records none."""

    def __post_init__(self) -> None:
        if self.limiter is not None:
            of_kind("limiter", self.limiter, Limit)
        at_least("result_limit", self.result_limit, 1)
        if not self.worker.isprintable() or " " in self.worker:
            raise InvalidOption(f"a worker's name must be text without spaces, got {self.worker!r}")


Record: TypeAlias = tuple[str | bytes | int, ...]
"""An outcome as the settling script takes it."""
_Sent = tuple[Settled[Job], Record]
"""An outcome as it will be stored, and what was sent for it."""
_Accepted = tuple[Settled[Job], Record, bytes]
"""An outcome that was stored, what was sent for it, and when it was stored."""
_NOT_FILED, _GONE = b"0", b""
_ENDS = (b"completed", b"failed")
_LEAVE_WITHIN_S = 1.0
"""A store that does not answer keeps nobody from leaving."""
LONGEST_LIMIT_S = 30.0
"""After a longer rate limit than this the worker looks again, because limits can be lifted."""


class BullSource:
    """One queue as a worker sees it."""

    def __init__(
        self,
        store: Store,
        keys: QueueKeys,
        options: ClaimOptions,
        *,
        clock: Clock | None = None,
        progressed: Callable[[Job, Any], None] | None = None,
        sealing: Sealing | None = None,
    ) -> None:
        self._client: Client = store.hot
        self._store = store
        self._keys = keys
        self._options = options
        self._clock = clock
        self._timer: Clock = clock or SystemClock()
        name = client_name(keys, f":w:{options.worker}")
        self._marker = WakeUp(
            store,
            "BZPOPMIN",
            keys.marker,
            keys.groups_marker,
            client_name=name,
            clock=self._timer,
        )
        self._queue = QueueRef(self._client, keys, progressed, sealing)
        self._records = Records(options)
        self._limited_until = 0.0
        self._lost: LostAnswers[Job, Record] = LostAnswers()

    async def open(self) -> None:
        """Show up among the queue's workers."""
        await self._marker.open()

    async def close(self) -> None:
        """Leave what waits to the workers that stay."""
        await self._marker.close()
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LEAVE_WITHIN_S):
                await scripts.leave(self._client, self._keys)

    async def settle(self, settled: Sequence[Settled[Job]], *, claim: int) -> Reply[Job]:
        """File outcomes away and claim up to `claim` more, in one round trip."""
        if not settled and not claim:
            await scripts.leave(self._client, self._keys)
            return Reply()
        sent, moved = await self._to_send(settled)
        if self._timer.monotonic() < self._limited_until:
            claim = 0
        # A call whose answer was lost may have claimed jobs: they are ours, and are taken up first.
        found = await self._lost.find(self._find_held) if self._lost.tokens else []
        claim = max(0, claim - len(found))
        if not sent and not claim:
            return Reply(found, settled=moved)
        with self._lost.settling(sent) as tokens:
            tokens.update(each.token for each in found)
            # One step in the store: outcomes are filed if their lock is still ours, then the next
            # jobs are locked. If the process ends behind it, the outcomes count, and the locks of
            # the new jobs run out: the stalled check of another worker puts them back.
            settlement, token = await self._call(_flat(sent), claim)
            tokens.add(token)
            accepted, refused = await self._sorted(sent, settlement)
            claims = await self._claims(settlement, token)
        for each, record, at in accepted:
            remember(each.claim.work, record, at)
            moved.append(each)
        return Reply(found + claims, refused, moved)

    async def _to_send(
        self, settled: Sequence[Settled[Job]]
    ) -> tuple[list[_Sent], list[Settled[Job]]]:
        """What is sent for each outcome, and the outcomes for which nothing is."""
        records, in_doubt = self._records, self._lost.in_doubt
        sent: list[_Sent] = []
        moved: list[Settled[Job]] = []
        for each in settled:
            before = in_doubt.get(each.claim) if in_doubt else None
            stored, record = before or records.at_once(each) or await records.of(each)
            if record:
                sent.append((stored, record))
            else:
                moved.append(stored)
        return sent, moved

    async def _sorted(
        self, sent: Sequence[_Sent], settlement: Settlement
    ) -> tuple[list[_Accepted], list[Refused[Job]]]:
        """What was accepted, and what was not."""
        accepted: list[_Accepted] = []
        refused: list[Refused[Job]] = []
        waiting: list[Settled[Job]] = []
        doubtful: list[_Sent] = []
        now = b"%d" % settlement.now
        for (each, record), code in zip(sent, settlement.codes, strict=True):
            if not code:
                accepted.append((each, record, now))
            elif code in HELD_UP:
                error = held_up(code, each.claim.id)
                waiting.append(Settled(each.claim, Failed(error), each.took_s))
            elif each.claim in self._lost.in_doubt:
                doubtful.append((each, record))
            else:
                refused.append(Refused(each.claim, refusal_of(each.claim.work, code)))
        if doubtful:
            worker = self._options.worker
            found = await _filed_before(self._client, self._keys, doubtful, worker=worker)
            for (each, record), at in zip(doubtful, found, strict=True):
                if at is None:
                    lost = LeaseLost(f"job {each.claim.id} was taken back from this worker")
                    refused.append(Refused(each.claim, lost))
                else:
                    accepted.append((each, record, at))
        if waiting:
            # Their children do not let them complete, and nobody else would end them.
            failing = [await self._records.of(each) for each in waiting]
            again = [(each, record) for each, record in failing if record]
            settlement, _ = await self._call(_flat(again), 0)
            more, others = await self._sorted(again, settlement)
            accepted += more
            refused += others
        return accepted, refused

    async def _call(
        self, outcomes: Sequence[str | bytes | int], claim: int
    ) -> tuple[Settlement, str]:
        options, limit = self._options, self._options.limiter
        with self._lost.calling(claim) as token:
            settlement = await scripts.settle(
                self._client,
                self._keys,
                now=script_time(self._clock),
                token=token,
                lease_ms=options.lock_duration,
                want=claim,
                worker=options.worker,
                max=limit.max if limit else "",
                duration=limit.duration_ms if limit else "",
                metrics=options.metrics_points or "",
                outcomes=outcomes,
            )
        # Another call may be waiting at the marker already, so the marker has to know at once.
        if settlement.limited_ms > 0:
            self._limited_until = self._timer.monotonic() + settlement.limited_ms / 1000
            self._marker.expect(settlement.limited_ms)
        elif settlement.due_in_ms > 0:
            self._marker.expect(settlement.due_in_ms)
        return settlement, token

    async def _find_held(self, tokens: Sequence[str]) -> list[Claim[Job]]:
        """The jobs that are locked with one of these tokens."""
        found = await scripts.find_held(self._client, self._keys, tokens=tokens)
        return await self._named(
            (found[at], [*found[at + 2], COUNTED, b""], found[at + 1].decode())
            for at in range(0, len(found), 3)
        )

    async def _claims(self, settlement: Settlement, token: str) -> list[Claim[Job]]:
        raw = settlement.claims
        places = range(0, len(raw), 2)
        # What the script has written since it read the fields.
        started = [b"processedOn", b"%d" % settlement.now, b"pb", self._options.worker.encode()]
        try:
            return [self._claim(raw[at], [*raw[at + 1], *started], token) for at in places]
        except UnicodeDecodeError:
            return await self._named((raw[at], [*raw[at + 1], *started], token) for at in places)

    async def _named(self, found: Iterable[tuple[bytes, Sequence[bytes], str]]) -> list[Claim[Job]]:
        """The jobs whose ids are text; others cannot be worked on, and fail."""
        claims: list[Claim[Job]] = []
        nameless: list[str | bytes | int] = []
        for id, fields, token in found:
            try:
                claims.append(self._claim(id, fields, token))
            except UnicodeDecodeError:
                reason = f"a job's id must be UTF-8, got {id!r}"
                nameless += ("failed", id, token, reason, b"[]", "", 1, "")
        if nameless:
            await self._call(nameless, 0)
        return claims

    def _claim(self, id: bytes, flat: Sequence[bytes], token: str) -> Claim[Job]:
        text = id.decode()
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return Claim(text, Job(text, fields, self._queue, token), token)

    async def wait(self, at_most: float) -> None:
        """Return when there may be work."""
        limited = self._limited_until - self._timer.monotonic()
        if limited > 0:
            await self._timer.sleep(min(limited, LONGEST_LIMIT_S))
            self._marker.forget_what_is_due()
        else:
            await self._marker.wait(at_most)

    @contextlib.asynccontextmanager
    async def keeper(self) -> AsyncGenerator[Extend]:
        """Open the way to renew locks, with a connection of its own."""
        async with self._store.clone() as store:

            async def extend(claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
                locks = [text for claim in claims for text in (claim.id, claim.token)]
                lost: list[int] = await scripts.extend_locks(
                    store.redis, self._keys, lease_ms=self._options.lock_duration, locks=locks
                )
                return [claims[place - 1] for place in lost]

            yield extend


def _flat(sent: Sequence[_Sent]) -> list[str | bytes | int]:
    return [part for _, record in sent for part in record]


async def _filed_before(
    client: Client, keys: QueueKeys, sent: Sequence[_Sent], *, worker: str
) -> list[bytes | None]:
    """When each job finished, if its outcome was filed by an earlier call, and else None.

    The answer to that call was lost. The job shows what came of it: nobody else can have ended it
    while it has not stalled. A job that was not kept is looked for in the queue's events.
    """
    found = await scripts.filed_before(
        client, keys, outcomes=[part for each in sent for part in _known(each)]
    )
    gone = {
        each.claim.id.encode(): str(record[0]).encode()
        for (each, record), answer in zip(sent, found, strict=True)
        if answer == _GONE and record[0] in ("completed", "failed")
    }
    ended = await _ended_by(client, keys, gone, worker.encode()) if gone else {}
    return [
        None if answer == _NOT_FILED else answer or ended.get(each.claim.id.encode())
        for (each, _), answer in zip(sent, found, strict=True)
    ]


def _known(sent: _Sent) -> tuple[str | int, ...]:
    settled, record = sent
    job = settled.claim.work
    kind = str(record[0])
    return (kind, job.id, job.attempts_made, job.attempts_started, job.stalled_count)


async def _ended_by(
    client: Client, keys: QueueKeys, ids: dict[bytes, bytes], worker: bytes
) -> dict[bytes, bytes]:
    """When those jobs ended, as their workers say they did, whose last pickup was this worker's."""
    ended: dict[bytes, bytes] = {}
    ours: dict[bytes, bytes] = {}
    async with contextlib.aclosing(newest_first(client, keys.events)) as events:
        async for place, event in events:
            id, name = event.get(b"jobId", b""), event.get(b"event")
            if id not in ids:
                continue
            if name in _ENDS:
                # One that was cancelled has failed, whatever its worker has sent.
                if name != ids[id]:
                    del ids[id]
                    continue
                ended[id] = place.partition(b"-")[0]
            elif name == b"active":
                del ids[id]
                if id in ended and event.get(b"workerId") == worker:
                    ours[id] = ended[id]
                if not ids:
                    break
    return ours


# Outcomes as records

_MOVED_BY_THE_HANDLER = (JobDelayed, JobWaiting, JobWaitingForChildren)
NO_FAILURES = (JobRateLimited, *_MOVED_BY_THE_HANDLER)
"""What a handler raises to end an attempt that has not failed. Internal."""


class Records:
    """Makes the records of one worker's outcomes."""

    def __init__(self, options: ClaimOptions) -> None:
        self._options = options
        self._keep_completed = kept(options.remove_on_complete)
        self._keep_failed = kept(options.remove_on_fail)
        self._rng = random.Random()

    def at_once(self, settled: Settled[Job]) -> tuple[Settled[Job], Record] | None:
        """As `of`, without a coroutine, for a result that can be encoded: nearly every job."""
        if type(settled.outcome) is not Done:
            return None
        try:
            return self._done(settled, settled.outcome.result)
        except InvalidResult:
            return None

    async def of(self, settled: Settled[Job]) -> tuple[Settled[Job], Record | None]:
        """The outcome as it will be stored, and its record, if one is sent."""
        claim, outcome = settled.claim, settled.outcome
        stored: Stored = Returned()
        record: Record | None = ("returned", claim.id, claim.token)
        if isinstance(outcome, Done):
            try:
                return self._done(settled, outcome.result)
            except InvalidResult as error:
                outcome = Failed(error)
        match outcome:
            case Failed(JobRateLimited()):
                record = ("limited", claim.id, claim.token)
            case Failed(error) if isinstance(error, _MOVED_BY_THE_HANDLER):
                stored, record = Moved(), None
            case Failed(error):
                stored, record = await self._failed(claim, error)
            case _:
                pass
        return Settled(claim, stored, settled.took_s), record

    def _done(self, settled: Settled[Job], result: object) -> tuple[Settled[Job], Record]:
        claim = settled.claim
        if type(result) is SealedResult:
            # What is reported is what the handler has returned, whatever is stored of it.
            settled = Settled(claim, Done(result.plain), settled.took_s)
            result = result.stored
        return settled, self._completed(claim, result)

    def _completed(self, claim: Claim[Job], result: object) -> Record:
        value = codec.encode_result(result, self._options.result_limit)
        refuse_imitation(value, "a result", InvalidResult)
        keep = claim.work.options.keep_completed
        keep = self._keep_completed if keep is None else keep
        return ("completed", claim.id, claim.token, value, keep)

    async def _failed(self, claim: Claim[Job], error: BaseException) -> tuple[Stored, Record]:
        job = claim.work
        made = job.attempts_made + 1
        pause = await self._pause(job, error)
        reason = reason_text(error)
        traces = codec.encode(self._traces(job, error))
        head = (claim.id, claim.token, reason, traces)
        if pause is not None:
            # Retry: the script puts the job back, or among the delayed ones. If the process ends
            # before, the job counts as stalled instead, and fails if it stalls too often.
            if has_undo(job):
                await steps_of(job).note_undos()
            return Retried(error, made, pause), ("retry", *head, pause, int(job.options.lifo))
        if has_undo(job) and known(job, FAILING) is None:
            # It runs once more, for what it has done to be undone, and fails then.
            with contextlib.suppress(LeaseLost, NotFound):
                await steps_of(job).mark_failing(reason, traces)
            return Returned(), ("returned", claim.id, claim.token)
        keep = job.options.keep_failed
        keep = self._keep_failed if keep is None else keep
        return Failed(error, made), (
            "failed",
            *head,
            keep,
            job.options.attempts,
            _cause(job, error, reason),
        )

    async def _pause(self, job: Job, error: BaseException) -> int | None:
        """Milliseconds until the next attempt; None when there is none."""
        options = self._options
        made = job.attempts_made + 1
        most_started = options.max_started_attempts
        if made >= job.options.attempts or isinstance(error, Unrecoverable) or job.discarded:
            return None
        if most_started is not None and job.attempts_started >= most_started:
            return None
        if not self._may_retry(job, error):
            return None
        pause = await self._backoff(job, error, made)
        deadline = job.options.terms.deadline_ms(job.created_ms)
        if pause is None or deadline is None or time.time() * 1000 + pause < deadline:
            return pause
        error.add_note("the next attempt would come after the job's deadline")
        return None

    def _may_retry(self, job: Job, error: BaseException) -> bool:
        if self._options.retry_if is None:
            return True
        try:
            return bool(self._options.retry_if(error, job))
        except Exception as trouble:
            error.add_note(f"retry_if failed, so the job is tried again: {trouble!r}")
            return True

    async def _backoff(self, job: Job, error: BaseException, made: int) -> int | None:
        options = self._options
        rule = job.options.backoff
        if rule is None:
            return 0
        if pauses := growing(rule, options.max_backoff):
            return pauses.pause_ms(made, self._rng)
        if rule.type in ("fixed", "exponential"):
            return 0
        return await self._custom_pause(rule, made, error, job)

    async def _custom_pause(
        self, rule: Backoff, made: int, error: BaseException, job: Job
    ) -> int | None:
        if self._options.strategy is None:
            error.add_note(f"no strategy knows the backoff {rule.type!r}, so there was no retry")
            return None
        try:
            pause = self._options.strategy(made, rule.type, error, job)
            if isinstance(pause, Awaitable):
                pause = await pause
            return None if pause is None else milliseconds(pause, "the pause from backoff_strategy")
        except asyncio.CancelledError:
            leave_if_cancelled()
            error.add_note("the backoff strategy was cancelled, so there was no retry")
            return None
        except BaseException as trouble:
            error.add_note(f"the backoff strategy failed, so there was no retry: {trouble!r}")
            return None

    def _traces(self, job: Job, error: BaseException) -> list[str]:
        notes: list[str] = getattr(error, "__notes__", [])
        known_already = job.stacktrace and job.stacktrace[-1].rstrip("\n") in notes
        traces = job.stacktrace if known_already else [*job.stacktrace, trace_text(error)]
        limit = job.options.stack_trace_limit
        return traces if limit is None else traces[-limit:] if limit else []


def _cause(job: Job, error: BaseException, reason: str) -> str:
    """What makes a job fail, if it is no error of its handler: never told by words of an error."""
    if isinstance(error, NoHandler):
        return FailureCause.NO_HANDLER
    cancelled = FailureCause.CANCELLED
    was_cancelled = known(job, CAUSE) == cancelled.encode()
    return cancelled if was_cancelled and known(job, FAILING) == reason.encode() else ""


def remember(job: Job, record: Record, now: bytes) -> None:
    """Update a job with what was stored about it, for the listeners that get it."""
    kind = record[0]
    if kind == "completed":
        remember_result(job, cast(bytes, record[3]), now)
        return
    if kind in ("returned", "limited"):
        return
    fields: dict[bytes, Any] = {
        b"atm": b"%d" % (job.attempts_made + 1),
        b"failedReason": cast(str, record[3]).encode(),
        b"stacktrace": record[4],
    }
    if kind != "retry":
        fields[b"finishedOn"] = now
    elif record[5]:
        fields[b"delay"] = b"%d" % record[5]
    remember_fields(job, fields)


HELD_UP = (-4, -9)
"""The codes of a job whose children do not let it complete."""


def held_up(code: int, id: str) -> WaystationError:
    """Why such a job fails instead."""
    # In Node's words, because that is what dashboards and alerts look for.
    if code == -4:
        return WrongState(f"Job {id} has pending dependencies. moveToFinished")
    return Unrecoverable(
        f"Cannot complete job {id} because it has at least one failed child. moveToFinished"
    )
