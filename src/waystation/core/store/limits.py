"""How much may happen: limits that are checked in one step, on the server's clock.

A call that is refused leaves no trace, and every limit forgets itself when it is not used.
"""

from typing import Any, NamedTuple, Self

import msgspec

from waystation.core.errors import InvalidOption, RateLimited
from waystation.core.store.script import Client, script

MOST = 2**53 - 1
"""The largest number that a script counts exactly."""


class Verdict(NamedTuple):
    """What a limit says to one call."""

    allowed: bool
    remaining: int
    """How much more would be let through now."""
    retry_after_ms: int
    """When it is worth asking again; 0 for a call that was let through."""

    @classmethod
    def read(cls, reply: Any) -> Self:
        """Take a script's reply apart."""
        allowed, remaining, retry_after_ms = reply
        return cls(bool(allowed), remaining, retry_after_ms)

    def require(self) -> None:
        """Raise unless the call was let through."""
        if not self.allowed:
            raise RateLimited(
                f"the limit is used up, ask again in {self.retry_after_ms} ms", self.retry_after_ms
            )


class SlidingWindow(msgspec.Struct, frozen=True):
    """At most so many in any span of that length; remembers every call of the last span."""

    limit: int
    width_ms: int

    def __post_init__(self) -> None:
        _at_least_one(limit=self.limit, width_ms=self.width_ms)


class FixedWindow(msgspec.Struct, frozen=True):
    """At most so many from the first call until the window closes; remembers two numbers."""

    limit: int
    width_ms: int

    def __post_init__(self) -> None:
        _at_least_one(limit=self.limit, width_ms=self.width_ms)


class TokenBucket(msgspec.Struct, frozen=True):
    """A steady rate with room for bursts; remembers two numbers."""

    capacity: int
    """Tokens in a full bucket: the largest burst."""
    refill: int
    """Tokens that flow in per period."""
    period_ms: int = 1000

    def __post_init__(self) -> None:
        _at_least_one(capacity=self.capacity, refill=self.refill, period_ms=self.period_ms)
        _at_least_one(capacity_times_period_ms=self.capacity * self.period_ms)

    @property
    def limit(self) -> int:
        """The most that one call may cost."""
        return self.capacity


class Concurrency(msgspec.Struct, frozen=True):
    """At most so many at the same time; a holder that is not heard of loses its place."""

    limit: int
    hold_ms: int
    """How long a place is kept without being held again."""

    def __post_init__(self) -> None:
        _at_least_one(limit=self.limit, hold_ms=self.hold_ms)


async def allow(
    redis: Client,
    key: str,
    limit: SlidingWindow | FixedWindow | TokenBucket,
    *,
    cost: int = 1,
    now_ms: int | None = None,
) -> Verdict:
    """Ask the limit kept under the key to let a call of this cost through."""
    if not 1 <= cost <= limit.limit:
        raise InvalidOption(f"cost must be 1 to {limit.limit}, the limit itself, got {cost}")
    now = "" if now_ms is None else now_ms
    at = _At(key)
    match limit:
        case SlidingWindow(most, width):
            return await sliding_window(redis, at, limit=most, width=width, cost=cost, now=now)
        case FixedWindow(most, width):
            return await fixed_window(redis, at, limit=most, width=width, cost=cost, now=now)
        case TokenBucket(capacity, refill, period):
            return await token_bucket(
                redis, at, capacity=capacity, refill=refill, period=period, cost=cost, now=now
            )


async def occupy(
    redis: Client, key: str, limit: Concurrency, *, holder: str, now_ms: int | None = None
) -> Verdict:
    """Ask for a place, or keep the one this holder has for another while."""
    return await hold(
        redis,
        _At(key),
        limit=limit.limit,
        holder=holder,
        hold=limit.hold_ms,
        now="" if now_ms is None else now_ms,
    )


async def vacate(redis: Client, key: str, *, holder: str) -> bool:
    """Give the place back; False when the holder had none."""
    return await release(redis, _At(key), holder=holder)


class _At(NamedTuple):
    state: str


@script(reply=Verdict.read)
async def sliding_window(
    redis: Client, keys: _At, *, limit: int, width: int, cost: int, now: int | str
) -> Verdict:
    """Let a call through when there is room for it in the window that ends now."""
    ...


@script(reply=Verdict.read)
async def fixed_window(
    redis: Client, keys: _At, *, limit: int, width: int, cost: int, now: int | str
) -> Verdict:
    """Let a call through when there is room for it in the window that the first call opened."""
    ...


@script(reply=Verdict.read)
async def token_bucket(
    redis: Client, keys: _At, *, capacity: int, refill: int, period: int, cost: int, now: int | str
) -> Verdict:
    """Let a call through when the bucket holds enough tokens for it."""
    ...


@script(reply=Verdict.read)
async def hold(
    redis: Client, keys: _At, *, limit: int, holder: str, hold: int, now: int | str
) -> Verdict:
    """Give a holder one of the places, or keep the one it has."""
    ...


@script(reply=bool)
async def release(redis: Client, keys: _At, *, holder: str) -> bool:
    """Take a holder's place away."""
    ...


def _at_least_one(**options: int) -> None:
    for name, value in options.items():
        if not 1 <= value <= MOST:
            raise InvalidOption(f"{name} must be 1 to {MOST}, got {value}")
