"""Connector: what the middleware of all frameworks does with a request."""

import threading
import time
from typing import NamedTuple, TypeAlias

import msgspec

from waystation.waitingroom.middleware.answers import arrival, refusal
from waystation.waitingroom.middleware.gate import (
    Ask,
    Decision,
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


class Asked(NamedTuple):
    """A request to the site; names of headers are lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    address: str = ""


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
        self._lock = threading.Lock()

    @property
    def is_stale(self) -> bool:
        """Whether keys and settings should be asked for again."""
        return time.monotonic() >= self._next

    @property
    def is_new(self) -> bool:
        """Whether nothing is known yet, not even that the room is away."""
        return self.gate.keys is None and self.gate.away_since is None

    def refresh(self) -> None:
        """Ask for keys and settings if they are stale; blocks."""
        # Only the first answer is worth waiting for; a room that is away must hold up nobody.
        if not self.is_stale or not self._lock.acquire(blocking=self.is_new):
            return
        try:
            if self.is_stale:
                self._next = time.monotonic() + self.link.refresh()
        finally:
            self._lock.release()

    def expire(self) -> None:
        """Ask for keys and settings at the next request."""
        self._next = float("-inf")

    def decide(self, asked: Asked) -> Decision:
        """What to do with a request, as far as that can be said without asking the room."""
        return self.gate.decide(asked.method, asked.path, asked.query, asked.headers)

    def settle(self, decision: Decision, asked: Asked) -> Passing | Reply:
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
                queue, token = self.link.redeem(decision)
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
