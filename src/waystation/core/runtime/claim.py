"""The seam between a line and the worker: claims, what became of them, and where they come from."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from waystation.core.errors import WaystationError
from waystation.core.outcome import Stored

W = TypeVar("W")


class Claim(Generic[W]):
    """One piece of work that is ours while the lease lasts."""

    # A plain class with slots: one is made for every job, and nothing is cheaper to make.
    __slots__ = ("id", "token", "work")

    def __init__(self, id: str, work: W, token: str = "") -> None:
        self.id = id
        self.work = work
        self.token = token

    def __repr__(self) -> str:
        return f"Claim({self.id!r}, token={self.token!r})"


class Settled(Generic[W]):
    """A claim and how its attempt ended."""

    __slots__ = ("claim", "outcome", "took_s")

    def __init__(self, claim: Claim[W], outcome: Stored, took_s: float = 0.0) -> None:
        self.claim = claim
        self.outcome = outcome
        self.took_s = took_s

    def __repr__(self) -> str:
        return f"Settled({self.claim.id!r}, {self.outcome!r})"


class Refused(Generic[W]):
    """A claim whose outcome did not count, and why."""

    __slots__ = ("claim", "reason")

    def __init__(self, claim: Claim[W], reason: WaystationError) -> None:
        self.claim = claim
        self.reason = reason


class Reply(Generic[W]):
    """What comes back from one call: the next claims, and what became of each outcome."""

    __slots__ = ("claims", "refused", "settled")

    def __init__(
        self,
        claims: Sequence[Claim[W]] = (),
        refused: Sequence[Refused[W]] = (),
        settled: Sequence[Settled[W]] = (),
    ) -> None:
        self.claims = claims
        self.refused = refused
        """The outcomes that were not accepted."""
        self.settled = settled
        """The outcomes that were accepted, as they were stored."""


Extend: TypeAlias = Callable[[Sequence[Claim[Any]]], Awaitable[Sequence[Claim[Any]]]]
"""Renew the leases; the claims returned are lost."""


class Source(Protocol[W]):
    """Where work comes from; three of the four lines are one.

    Calls may be under way two at a time, and a call that raises `StoreUnreachable` or is cancelled
    is made again with the same outcomes, so an outcome filed twice must be refused the second time.
    """

    async def settle(self, settled: Sequence[Settled[W]], *, claim: int) -> Reply[W]:
        """File outcomes away and claim up to `claim` more, in one round trip.

        With neither it says that whatever ended the last `wait` is for somebody else.
        """
        ...

    async def wait(self, at_most: float) -> None:
        """Return when there may be work, or after that many seconds."""
        ...

    def keeper(self) -> AbstractAsyncContextManager[Extend]:
        """Open the way to renew leases; entered on a loop and thread of its own."""
        ...
