"""Outcomes as the settling script takes them. Internal."""

import random
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from waystation.core.backoff import Backoff, Dice, Growth
from waystation.core.clock import Clock, SystemClock
from waystation.core.durations import milliseconds
from waystation.core.errors import InvalidResult, Malformed, Unrecoverable
from waystation.core.failure import trace_text
from waystation.core.outcome import Done, Failed, Retried, Stored
from waystation.core.runtime.claim import Settled
from waystation.routing.job import HeldJob, Job, route_of
from waystation.routing.options import BackoffRule, Retry
from waystation.routing.redis.wire import rewritten
from waystation.routing.registry import Profile
from waystation.routing.results import dead_letter_meta, failure, success

Record: TypeAlias = Sequence[str | bytes | int]
"""An outcome as the settling script takes it."""

Sent: TypeAlias = tuple[Settled[Job], Record]
"""An outcome as it will be stored, and what is sent for it."""


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
