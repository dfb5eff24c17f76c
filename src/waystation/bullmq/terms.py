"""Terms of one job: how long an attempt may take, and until when it must have begun and ended.

They travel in the job's options under a name of their own, which Node's workers do not read.
"""

import asyncio
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import msgspec

from waystation.core.durations import Duration, milliseconds
from waystation.core.errors import Expired, InvalidOption, TimedOut
from waystation.core.options import of_kind
from waystation.core.runtime.handlers.time_limit import TimeLimit
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

When: TypeAlias = Duration | datetime
"""A duration from now on, or an aware datetime."""

MARK = b'"terms"'
"""What the options of every job with terms contain."""


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The terms of a job as they are stored, in milliseconds."""

    timeout: int | None = None
    """How long one attempt may run."""
    expires_in: int | None = None
    """After the job was made."""
    expires_at: int | None = None
    """Since 1970."""
    deadline_in: int | None = None
    """After the job was made."""
    deadline_at: int | None = None
    """Since 1970."""

    def expires_ms(self, created_ms: int) -> int | None:
        """The instant by which the job must have begun."""
        return _instant(created_ms, self.expires_in, self.expires_at)

    def deadline_ms(self, created_ms: int) -> int | None:
        """The instant by which the job must have ended."""
        return _instant(created_ms, self.deadline_in, self.deadline_at)

    @property
    def ask_for_time(self) -> bool:
        """True when the clock of the store has to be read."""
        return self != Terms(timeout=self.timeout)


NONE = Terms()


def made(*, timeout: Duration | None, expires: When | None, deadline: When | None) -> Terms | None:
    """The terms from a job's options; None when there are none."""
    if timeout is expires is deadline is None:
        return None
    expires_in, expires_at = _in_or_at("expires", expires)
    deadline_in, deadline_at = _in_or_at("deadline", deadline)
    return Terms(
        timeout=None if timeout is None else max(1, milliseconds(timeout, "timeout", above=0)),
        expires_in=expires_in,
        expires_at=expires_at,
        deadline_in=deadline_in,
        deadline_at=deadline_at,
    )


def stored(raw: Any) -> Terms:
    """The terms from a job's stored options; what cannot be read counts as none."""
    try:
        return msgspec.convert(raw, Terms)
    except msgspec.ValidationError:
        return NONE


class Limit(NamedTuple):
    """How long an attempt may still take, and what ends it."""

    seconds: float
    by_deadline: bool


def limit_of(terms: Terms, *, created_ms: int, now_ms: int, has_begun: bool) -> Limit | None:
    """How long an attempt that starts now may take; raises `Expired` when it comes too late."""
    expires, deadline = terms.expires_ms(created_ms), terms.deadline_ms(created_ms)
    if not has_begun and expires is not None and now_ms > expires:
        raise Expired(f"the job had not begun {(now_ms - expires) / 1000:g} s after it expired")
    limits: list[Limit] = []
    if terms.timeout is not None:
        limits.append(Limit(terms.timeout / 1000, by_deadline=False))
    if deadline is not None:
        if now_ms >= deadline:
            raise Expired(f"the job's deadline was {(now_ms - deadline) / 1000:g} s ago")
        limits.append(Limit((deadline - now_ms) / 1000, by_deadline=True))
    return min(limits, default=None)


async def within(limit: Limit, attempt: Awaitable[Any]) -> Any:
    """Run an attempt, and stop it when its time is up."""
    scope = asyncio.timeout(limit.seconds) if limit.by_deadline else TimeLimit(limit.seconds)
    try:
        async with scope:
            return await attempt
    except TimeoutError as error:
        if not scope.expired():
            raise
        if limit.by_deadline:
            raise Expired("the handler was stopped at the job's deadline") from error
        sentence = f"the handler was stopped after {limit.seconds:g} s, as the job asks"
        raise TimedOut(sentence) from error


def _instant(created_ms: int, after: int | None, at: int | None) -> int | None:
    return at if after is None else created_ms + after


def _in_or_at(name: str, given: When | None) -> tuple[int | None, int | None]:
    if given is None:
        return None, None
    if not isinstance(given, datetime):
        return max(1, milliseconds(given, name, above=0)), None
    return None, instant_ms(name, given)


def instant_ms(name: str, instant: datetime) -> int:
    """Milliseconds since 1970 from a datetime, which must have a time zone."""
    of_kind(name, instant, datetime)
    if instant.tzinfo is None:
        raise InvalidOption(f"{name} needs a time zone, got {instant.isoformat()}")
    return round(instant.timestamp() * 1000)


_SUSPECTED: set[tuple[str, float]] = set()
_HOUR, _DAY, _YEAR = 3600, 86_400, 366 * 86_400


def warn_of_milliseconds(name: str, duration: Duration) -> None:
    """Log, once, a bare number that was surely meant in milliseconds, with both readings.

    That is one of whole thousands which, in seconds, is no number of hours or days that somebody
    would write: 5000 or 60000, but neither 36000, ten hours, nor 2592000, thirty days.
    """
    if isinstance(duration, timedelta) or duration < 1000 or duration % 1000:
        return
    in_hours = duration < 1_000_000 and duration % _HOUR == 0
    in_days = duration <= _YEAR and duration % _DAY == 0
    if in_hours or in_days or (name, duration) in _SUSPECTED:
        return
    _SUSPECTED.add((name, duration))
    read, meant = (timedelta(seconds=each) for each in (duration, duration / 1000))
    _log.warning(
        "milliseconds_suspected",
        hint=f"{name} {duration:.0f} is read as seconds: {read}; as milliseconds it were {meant}",
    )
