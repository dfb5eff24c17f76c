"""How jobs get out: claimed and settled in batches, under locks that other clients respect."""

import asyncio
import contextlib
import random
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from waystation.core import codec, identity
from waystation.core.backoff import HOUR_MS
from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import (
    InvalidInput,
    InvalidOption,
    StoreError,
    StoreUnreachable,
    Unrecoverable,
    WaystationError,
    WrongState,
)
from waystation.core.options import at_least, of_kind
from waystation.core.outcome import Done, Failed, Returned
from waystation.core.runtime.claim import Claim, Extend, Refused, Reply, Settled
from waystation.core.store.connection import Store
from waystation.core.store.script import Client

from . import scripts
from .errors import MOVED_BY_THE_HANDLER, RateLimitError
from .job import COUNTED, Job, QueueRef
from .keys import QueueKeys
from .limits import Limit
from .marker import Marker
from .options import Backoff, Retention, kept
from .refusals import refusal
from .scripts import SERVER_TIME, Settlement

Strategy = Callable[[int, str, BaseException, Job], "int | Awaitable[int]"]
"""From attempts made, backoff's name, error and job: milliseconds to wait, or -1 for no more."""

_LEAVE_WITHIN_S = 1.0
"""A store that does not answer keeps nobody from leaving."""
LONGEST_LIMIT_S = 30.0
"""After a longer rate limit than this the worker looks again, because limits can be lifted."""


class ClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are claimed and what becomes of them."""

    worker: str
    lock_duration: int = 30_000
    limiter: Limit | None = None
    max_backoff: int = HOUR_MS
    """The longest that a growing pause between attempts gets."""
    strategy: Strategy | None = None
    """Decides the pause for backoffs that are neither fixed nor exponential."""
    max_started_attempts: int | None = None
    remove_on_complete: Retention | None = None
    remove_on_fail: Retention | None = None
    metrics_points: int | None = None
    """Minutes of metrics to keep; None records none."""

    def __post_init__(self) -> None:
        if self.limiter is not None:
            of_kind("limiter", self.limiter, Limit)
            at_least("max of the limiter", self.limiter.max, 1)
            at_least("duration of the limiter", self.limiter.duration, 1)
        if not self.worker.isprintable() or " " in self.worker:
            raise InvalidOption(f"worker_name must be text without spaces, got {self.worker!r}")


class BullSource:
    """One queue as a worker sees it."""

    def __init__(
        self,
        store: Store,
        keys: QueueKeys,
        options: ClaimOptions,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._client: Client = store.hot
        self._store = store
        self._keys = keys
        self._options = options
        # Only tests bring a clock; otherwise the server says what time it is.
        self._clock = clock
        self._timer: Clock = clock or SystemClock()
        self._marker = Marker(store, keys, worker=options.worker, clock=self._timer)
        self._queue = QueueRef(self._client, keys)
        self._token = identity.lease_token()
        self._calls = 0
        self._keep_completed = kept(options.remove_on_complete)
        self._keep_failed = kept(options.remove_on_fail)
        self._dice = random.Random()
        self._limited_until = 0.0
        self._lost_answers: list[str] = []

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
        outcomes: list[str | bytes | int] = []
        filed: list[Claim[Job]] = []
        for each in settled:
            record = await self._record(each)
            if record:
                outcomes += record
                filed.append(each.claim)
        if self._timer.monotonic() < self._limited_until:
            claim = 0
        found = await self._find_lost_claims() if self._lost_answers else []
        claim = max(0, claim - len(found))
        if not filed and not claim:
            return Reply(found)
        settlement, token = await self._call(outcomes, claim)
        refused = [
            Refused(held, refusal(code, held.id))
            for held, code in zip(filed, settlement.codes, strict=True)
            if code
        ]
        try:
            if refused:
                await self._fail_held_up(filed, settlement.codes)
            claims = await self._claims(settlement.claims, token)
        except StoreError:
            # The whole is asked for again, and what it has claimed is found then.
            self._lost_answers.append(token)
            raise
        return Reply(found + claims, refused)

    async def _fail_held_up(self, filed: Sequence[Claim[Job]], codes: Sequence[int]) -> None:
        """Fail the jobs whose children do not let them complete; nobody else would end them."""
        outcomes: list[str | bytes | int] = []
        for held, code in zip(filed, codes, strict=True):
            if code in _HELD_UP:
                outcomes += await self._failure(held.work, held.token, _held_up(code, held.id))
        if outcomes:
            await self._call(outcomes, 0)

    async def _call(
        self, outcomes: Sequence[str | bytes | int], claim: int
    ) -> tuple[Settlement, str]:
        self._calls += 1
        token = f"{self._token}:{self._calls}"
        options, limit = self._options, self._options.limiter
        try:
            settlement = await scripts.settle(
                self._client,
                self._keys,
                base=self._keys.base,
                now=self._clock.now_ms() if self._clock else SERVER_TIME,
                token=token,
                lease_ms=options.lock_duration,
                want=claim,
                worker=options.worker,
                max=limit.max if limit else "",
                duration=limit.duration if limit else "",
                metrics=options.metrics_points or "",
                outcomes=outcomes,
            )
        except StoreUnreachable:
            if claim:
                self._lost_answers.append(token)
            raise
        # Another call may be waiting at the marker already, so the marker has to know at once.
        if settlement.limited_ms > 0:
            self._limited_until = self._timer.monotonic() + settlement.limited_ms / 1000
            self._marker.expect(settlement.limited_ms)
        elif settlement.due_in_ms > 0:
            self._marker.expect(settlement.due_in_ms)
        return settlement, token

    async def _find_lost_claims(self) -> list[Claim[Job]]:
        # A call whose answer was lost may have claimed jobs: they are ours, and nobody works on
        # them. Left alone they would stall, and a job that stalls twice fails.
        # Whoever looks for them takes their tokens along, so that no other call finds them, too.
        tokens, self._lost_answers = self._lost_answers, []
        try:
            found = await scripts.find_held(
                self._client, self._keys, base=self._keys.base, tokens=tokens
            )
            return await self._named(
                (found[at], [*found[at + 2], COUNTED, b""], found[at + 1].decode())
                for at in range(0, len(found), 3)
            )
        except StoreError:
            self._lost_answers += tokens
            raise

    async def _claims(self, raw: Sequence[Any], token: str) -> list[Claim[Job]]:
        places = range(0, len(raw), 2)
        try:
            return [self._claim(raw[at], raw[at + 1], token) for at in places]
        except UnicodeDecodeError:
            return await self._named((raw[at], raw[at + 1], token) for at in places)

    async def _named(self, found: Iterable[tuple[bytes, Sequence[bytes], str]]) -> list[Claim[Job]]:
        """The jobs whose ids are text; others cannot be worked on, and fail."""
        claims: list[Claim[Job]] = []
        nameless: list[str | bytes | int] = []
        for id, fields, token in found:
            try:
                claims.append(self._claim(id, fields, token))
            except UnicodeDecodeError:
                reason = f"a job's id must be UTF-8, got {id!r}"
                nameless += ("failed", id, token, reason, b"[]", "", 1)
        if nameless:
            await self._call(nameless, 0)
        return claims

    def _claim(self, id: bytes, flat: Sequence[bytes], token: str) -> Claim[Job]:
        text = id.decode()
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return Claim(text, Job(text, fields, self._queue, token), token)

    async def _record(self, settled: Settled[Job]) -> tuple[str | bytes | int, ...] | None:
        job, token = settled.claim.work, settled.claim.token
        match settled.outcome:
            case Done(result):
                try:
                    value = codec.encode(result)
                except InvalidInput as error:
                    return await self._failure(job, token, error)
                keep = job.opts.keep_completed
                keep = self._keep_completed if keep is None else keep
                return ("completed", job.id, token, value, keep)
            case Returned():
                return ("returned", job.id, token)
            case Failed(error) if isinstance(error, MOVED_BY_THE_HANDLER):
                return None
            case Failed(RateLimitError()):
                return ("limited", job.id, token)
            case Failed(error):
                return await self._failure(job, token, error)

    async def _failure(
        self, job: Job, token: str, error: BaseException
    ) -> tuple[str | bytes | int, ...]:
        pause = await self._pause(job, error)
        reason = _reason(error)
        traces = codec.encode(self._traces(job, error))
        if pause is not None:
            return ("retry", job.id, token, reason, traces, pause, int(job.opts.lifo))
        keep = job.opts.keep_failed
        keep = self._keep_failed if keep is None else keep
        return ("failed", job.id, token, reason, traces, keep, job.opts.attempts)

    async def _pause(self, job: Job, error: BaseException) -> int | None:
        """Milliseconds until the next attempt; None when there is none."""
        options = self._options
        made = job.attempts_made + 1
        most_started = options.max_started_attempts
        if made >= job.opts.attempts or isinstance(error, Unrecoverable) or job.discarded:
            return None
        if most_started is not None and job.attempts_started >= most_started:
            return None
        rule = job.opts.backoff
        if rule is None:
            return 0
        if growing := rule.growing(options.max_backoff):
            return growing.pause_ms(made, self._dice)
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
            return None if pause < 0 else int(pause)
        except Exception as trouble:
            error.add_note(f"the backoff strategy failed, so there was no retry: {trouble!r}")
            return None

    def _traces(self, job: Job, error: BaseException) -> list[str]:
        trace = _sayable("".join(traceback.format_exception(error)))
        traces = [*job.stacktrace, trace]
        limit = job.opts.stack_trace_limit
        return traces if limit is None else traces[len(traces) - limit :] if limit else []

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
        store = Store(self._store.address, self._store.options)
        try:

            async def extend(claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
                locks = [text for claim in claims for text in (claim.id, claim.token)]
                lost: list[int] = await scripts.extend_locks(
                    store.redis,
                    self._keys,
                    base=self._keys.base,
                    lease_ms=self._options.lock_duration,
                    locks=locks,
                )
                return [claims[place - 1] for place in lost]

            yield extend
        finally:
            await store.close()


def _reason(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    return _sayable(text) or type(error).__name__


def _sayable(text: str) -> str:
    """The text with whatever cannot be written as UTF-8 spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


_HELD_UP = (-4, -9)


def _held_up(code: int, id: str) -> WaystationError:
    # In Node's words, because that is what dashboards and alerts look for.
    if code == -4:
        return WrongState(f"Job {id} has pending dependencies. moveToFinished")
    return Unrecoverable(
        f"Cannot complete job {id} because it has at least one failed child. moveToFinished"
    )
