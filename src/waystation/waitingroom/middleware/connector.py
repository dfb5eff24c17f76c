"""Connector: what the middleware of all frameworks does with a request, and what it answers."""

import json
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from waystation.core.forks import Lock
from waystation.waitingroom.middleware.gate import (
    Ask,
    Decision,
    Down,
    Forbid,
    Gate,
    GateOptions,
    Pass,
    Redeem,
    Refuse,
    Wait,
)
from waystation.waitingroom.middleware.link import Asking, Fetch, Link, http_fetch

KEPT_S = 14_400
"""How long a browser keeps the cookie of a session."""
_PLAIN = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]


def refusal(
    decision: Wait | Refuse | Down | Forbid,
) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers for somebody who does not get through."""
    match decision:
        case Down():
            # A program comes again by the one, a browser by the other.
            again = [(b"retry-after", b"5"), (b"refresh", b"5")]
            return 503, b"The waiting room is not reachable.\n", [*_PLAIN, *again]
        case Forbid():
            return 403, b"This is not for you.\n", [*_PLAIN]
        case Wait(location=location) | Refuse(location=location):
            return _line(decision, location)


def _line(decision: Wait | Refuse, location: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    common = [(b"cache-control", b"no-store"), (b"wr-location", location.encode("latin-1"))]
    if isinstance(decision, Wait):
        return 303, b"", [(b"location", location.encode("latin-1")), *common]
    body = json.dumps(
        {
            "type": "urn:waystation:problem:waiting-room-required",
            "title": "Waiting room required",
            "status": 429,
            "code": "WAITING_ROOM_REQUIRED",
            "location": location,
        }
    ).encode()
    kind = (b"content-type", b"application/problem+json")
    return 429, body, [kind, (b"retry-after", b"5"), *common]


def arrival(location: str, cookie: str, token: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers that take the token out of the address and keep the session."""
    headers = [
        (b"location", location.encode("latin-1")),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
    ]
    return 303, b"", [*headers, cookie_header(cookie, token)] if token else headers


def cookie_header(name: str, token: str) -> tuple[bytes, bytes]:
    """The header that keeps a renewed session, or with no token throws an ended one away."""
    secure = "; Secure" if name.startswith("__Host-") else ""
    age = KEPT_S if token else 0
    text = f"{name}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", text.encode("latin-1")


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
        self._lock = Lock()

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
