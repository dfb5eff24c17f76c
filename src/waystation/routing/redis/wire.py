"""A job's JSON as BridgeMQ has it; internal. Durations and instants are in milliseconds here."""

from functools import lru_cache
from typing import Any, Literal

import msgspec

from waystation.core import codec
from waystation.core.backoff import LONGEST_MS
from waystation.core.durations import milliseconds, possible_instant
from waystation.core.errors import InvalidOption, Malformed
from waystation.routing.limits import Limit
from waystation.routing.options import DEFAULT_PRIORITY, BackoffRule, JobOptions, Retry
from waystation.routing.schedules import Missed, Overlap, Schedule
from waystation.routing.target import Target


class WireBackoff(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The delay between two attempts."""

    type: Literal["fixed", "exponential", "linear"] = "exponential"
    delay: int = 2_000
    max_delay: int = 60_000
    jitter: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.delay <= LONGEST_MS:
            raise InvalidOption(f"backoff delay must be 0 to {LONGEST_MS} ms, got {self.delay}")
        if not 0 <= self.max_delay <= LONGEST_MS:
            raise InvalidOption(
                f"backoff maxDelay must be 0 to {LONGEST_MS} ms, got {self.max_delay}"
            )


class WireRetry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The number of attempts, and errors that are treated specially."""

    attempts: int = 3
    backoff: WireBackoff = WireBackoff(jitter=True)
    skip_on: tuple[str, ...] = ()
    reroute_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= LONGEST_MS:
            raise InvalidOption(f"attempts must be 1 to {LONGEST_MS}, got {self.attempts}")

    def read(self) -> Retry:
        """The same in the units of the public API."""
        rule = self.backoff
        return Retry(
            attempts=self.attempts,
            backoff=BackoffRule(
                type=rule.type,
                delay=rule.delay / 1000,
                max_delay=rule.max_delay / 1000,
                jitter=rule.jitter,
            ),
            skip_on=self.skip_on,
            reroute_on=self.reroute_on,
        )


class WireSchedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """When a job may run."""

    delay: int | None = None
    run_at: int | None = None
    cron: str | None = None
    timezone: str | None = None
    overlap: Overlap = "allow"
    missed: Missed = "last"

    def __post_init__(self) -> None:
        if self.delay is not None and not 0 <= self.delay <= LONGEST_MS:
            raise InvalidOption(f"delay must be 0 to {LONGEST_MS} ms, got {self.delay}")

    def read(self) -> Schedule:
        """The same in the units of the public API."""
        return Schedule(
            delay=None if self.delay is None else self.delay / 1000,
            run_at=possible_instant(self.run_at),
            cron=self.cron,
            timezone=self.timezone,
            overlap=self.overlap,
            missed=self.missed,
        )


class WireJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job; what a foreign producer left out has a default."""

    job_id: str
    type: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    schedule: msgspec.Raw = msgspec.Raw(b"{}")
    retry: WireRetry = WireRetry()
    priority: float = DEFAULT_PRIORITY
    depends_on: tuple[str, ...] | None = ()
    target: Target | None = None
    rate_limit: Limit | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    created_at: float = 0
    attempts: int = 0
    """Attempts that have failed so far."""


def read_job(raw: bytes) -> WireJob:
    """Read a job's JSON; `Malformed` when it cannot be run."""
    try:
        return codec.decode(raw, WireJob)
    except InvalidOption as error:
        raise Malformed(f"the job cannot be run: {error}") from None


def read_schedule(raw: bytes) -> Schedule:
    """Read the schedule of a job's JSON."""
    return codec.decode(raw, WireSchedule).read()


def written(id: str, type: str, data: object, options: JobOptions, created_ms: int) -> bytes:
    """The JSON of a new job; those it waits for come last, where the script that adds it looks."""
    members: dict[str, Any] = {
        "jobId": id,
        "type": type,
        "payload": _given({} if data is None else data, "data"),
        "schedule": _AT_ONCE
        if options.schedule is _DEFAULT.schedule
        else _once(_schedule, options.schedule),
        "retry": _USUAL if options.retry is _DEFAULT.retry else _once(_retry, options.retry),
        "priority": options.priority,
        "target": options.target,
        "metadata": _given(options.metadata, "metadata"),
        "createdAt": created_ms,
        "attempts": 0,
    }
    if options.limit:
        members["rateLimit"] = options.limit
    members["dependsOn"] = options.depends_on
    return codec.encode(members)


def _given(value: object, what: str) -> msgspec.Raw:
    return msgspec.Raw(codec.encode_data(value, what, write=codec.encode))


def rewritten(raw: bytes, **changes: object) -> bytes:
    """The same JSON with some members replaced; all others stay byte for byte."""
    members = codec.decode(raw, dict[str, msgspec.Raw])
    return codec.encode(members | changes)


def instance_of(raw: bytes, id: str, created_ms: int) -> bytes:
    """The JSON of one instance of a schedule."""
    return rewritten(raw, jobId=id, createdAt=created_ms)


def text_of(id: bytes) -> str:
    """An id as text; clients that push ids with plain commands may push anything."""
    try:
        return id.decode()
    except UnicodeDecodeError:
        raise Malformed(f"a job's id must be UTF-8, got {id!r}") from None


def _once(write: Any, options: Retry | Schedule) -> msgspec.Raw:
    """Write options that many jobs share only once."""
    try:
        return write(options)
    except TypeError:
        # Made with a list where a tuple is expected, so they cannot be a key of the cache.
        return write.__wrapped__(options)


@lru_cache(maxsize=64)
def _retry(retry: Retry) -> msgspec.Raw:
    rule = retry.backoff
    return _raw(
        WireRetry(
            attempts=retry.attempts,
            backoff=WireBackoff(
                type=rule.type,
                delay=milliseconds(rule.delay),
                max_delay=milliseconds(rule.max_delay),
                jitter=rule.jitter,
            ),
            skip_on=retry.skip_on,
            reroute_on=retry.reroute_on,
        )
    )


@lru_cache(maxsize=64)
def _schedule(schedule: Schedule) -> msgspec.Raw:
    return _raw(
        WireSchedule(
            delay=schedule.delay_ms,
            run_at=schedule.run_at_ms,
            cron=schedule.cron,
            timezone=schedule.timezone,
            overlap=schedule.overlap,
            missed=schedule.missed,
        )
    )


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(value))


_DEFAULT = JobOptions()
_AT_ONCE = _schedule(_DEFAULT.schedule)
_USUAL = _retry(_DEFAULT.retry)
"""The defaults of most jobs, found by identity: a look into the cache takes a microsecond."""
