"""Connector: what the middleware of all frameworks does with a request."""

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from waystation.waitingroom.middleware.answers import arrival, refusal
from waystation.waitingroom.middleware.gate import (
    Ask,
    Decision,
    Down,
    Gate,
    GateOptions,
    Pass,
    Redeem,
    Wait,
)
from waystation.waitingroom.middleware.link import Asking, Fetch, Link, http_fetch

COMMAND = "wr-command"
"""The header with which a site ends a session: `complete` or `revoke`."""
_ENDING = ("complete", "revoke")

Reply: TypeAlias = tuple[int, bytes, list[tuple[bytes, bytes]]]
"""Status, body and headers of an answer instead of the site's."""


class SiteRequest(NamedTuple):
    """A request to the site; names of headers are lower case."""

    method: str
    path: str
    """As it was asked for, with its %XX."""
    query: str
    headers: dict[str, str]
    address: str = ""
    also: Sequence[str] = ()
    """What the server made of the path, which the site may read instead."""


class Passing(msgspec.Struct, frozen=True):
    """A request that goes on to the site."""

    passed: Pass
    renewed: str = ""
    """The session's fresh signature, if it got one."""

    def is_over(self, command: str) -> bool:
        """Whether the site has ended the session with its answer."""
        return bool(self.passed.queue) and command in _ENDING


class Connector:
    """Decides about requests and asks the room; every framework has its own shell around it."""

    def __init__(self, room: str, options: GateOptions, fetch: Fetch | None = None) -> None:
        self.gate = Gate(options)
        self.link = Link(self.gate, fetch or http_fetch(room))
        self._next = float("-inf")
        self._lasts_s = 0.0
        self._lock = threading.Lock()

    @property
    def is_stale(self) -> bool:
        """Whether keys and settings should be asked for again."""
        return time.monotonic() >= self._next

    @property
    def is_old(self) -> bool:
        """Whether what is known counts no more: there is nothing yet, or nobody asked for long."""
        return time.monotonic() >= self._next + self._lasts_s

    def refresh(self) -> None:
        """Ask for keys and settings if they are stale; blocks."""
        # Others go on with what is known meanwhile; a room that is away must hold up nobody.
        if not self.is_stale or not self._lock.acquire(blocking=self.is_old):
            return
        try:
            if self.is_stale:
                self._lasts_s = self.link.refresh()
                self._next = time.monotonic() + self._lasts_s
        finally:
            self._lock.release()

    def expire(self) -> None:
        """Ask for keys and settings at the next request."""
        self._next = float("-inf")

    def decide(self, asked: SiteRequest) -> Decision:
        """What to do with a request, as far as that can be said without asking the room."""
        return self.gate.decide(asked.method, asked.path, asked.query, asked.headers, asked.also)

    def settle(self, decision: Decision, asked: SiteRequest) -> Passing | Reply:
        """Let a request pass, or answer it; asks the room where that is needed, and blocks."""
        renewed: str | None = None
        if isinstance(decision, Ask):
            decision, renewed = self.link.settle(decision)
        if isinstance(decision, Wait):
            visitor = Asking(
                asked.address,
                asked.headers.get("user-agent", ""),
                asked.headers.get("host", ""),
                asked.headers.get("sec-purpose", ""),
            )
            decision, renewed = self.link.enter(decision, visitor)
        match decision:
            case Pass():
                return Passing(decision, renewed or "")
            case Redeem():
                seat = self.link.redeem(decision)
                if seat is None:
                    # The token stays in the address, so that it counts when the page is reloaded.
                    return refusal(Down())
                queue, token = seat
                return arrival(decision.location, self.gate.cookie(queue), token)
            case _:
                return refusal(decision)

    def cookie_of(self, passing: Passing, command: str) -> tuple[str, str] | None:
        """Name and value of the cookie to set: a fresh signature, or nothing for an ended one."""
        over = passing.is_over(command)
        if not over and not passing.renewed:
            return None
        return self.gate.cookie(passing.passed.queue), "" if over else passing.renewed

    def complete(self, passing: Passing) -> None:
        """Free the seat; blocks."""
        self.link.complete(passing.passed.session, passing.renewed or passing.passed.token)
