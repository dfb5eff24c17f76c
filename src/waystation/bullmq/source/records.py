"""Records: outcomes as the settling script takes them. Internal."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable
from typing import Any, TypeAlias, cast

from waystation.bullmq.fields import CAUSE, FAILING, FailureCause, known, remember_result
from waystation.bullmq.fields import remember as remember_fields
from waystation.bullmq.job import Job, has_undo, steps_of
from waystation.bullmq.options import Backoff, growing, kept
from waystation.bullmq.payloads.envelope import refuse_imitation
from waystation.bullmq.payloads.sealing import SealedResult
from waystation.bullmq.source.options import ClaimOptions
from waystation.core import codec
from waystation.core.durations import milliseconds
from waystation.core.errors import (
    InvalidResult,
    JobDelayed,
    JobRateLimited,
    JobWaiting,
    JobWaitingForChildren,
    LeaseLost,
    NoHandler,
    NotFound,
    Unrecoverable,
    WaystationError,
    WrongState,
)
from waystation.core.failure import reason_text, trace_text
from waystation.core.outcome import Done, Failed, Moved, Retried, Returned, Stored
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.runtime.tasks import leave_if_cancelled

Record: TypeAlias = tuple[str | bytes | int, ...]
"""An outcome as the settling script takes it."""


_MOVED_BY_THE_HANDLER = (JobDelayed, JobWaiting, JobWaitingForChildren)


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
