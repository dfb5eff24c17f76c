"""Cookies of visitors: the key that makes a browser one visitor, its ticket and its session."""

import hashlib
import secrets
from typing import TypeAlias

from waystation.waitingroom.http.framework.exchange import Request
from waystation.waitingroom.http.framework.problems import Code, Problem

Header: TypeAlias = tuple[bytes, bytes]


class VisitorCookies:
    """Reads and writes the room's cookies, and the headers that apps send instead of them."""

    def __init__(self, *, secure: bool, ticket_s: int) -> None:
        self._prefix = "__Host-wr_" if secure else "wr_"
        self._flags = "; HttpOnly; SameSite=Lax; Secure" if secure else "; HttpOnly; SameSite=Lax"
        self._ticket_s = ticket_s
        self._visitor = self.name("v")

    def name(self, kind: str, room: str = "") -> str:
        """The name of a cookie; the prefix makes browsers refuse one set by another host."""
        return f"{self._prefix}{kind}_{room}" if room else f"{self._prefix}{kind}"

    def header(self, name: str, value: str, max_age: int) -> Header:
        """The header that sets a cookie; with no age, the one that deletes it."""
        text = f"{name}={value}; Path=/; Max-Age={max_age}{self._flags}"
        return b"set-cookie", text.encode("latin-1")

    def visitor_key(self, request: Request) -> str | None:
        """The key of the visitor who asks; None for a new one."""
        cookie = request.cookies.get(self._visitor, "")
        header = request.header("wr-visitor")
        if cookie and header and cookie != header:
            raise Problem(400, Code.AMBIGUOUS_VISITOR, "the cookie and Wr-Visitor disagree")
        key = cookie or header
        return key if 22 <= len(key) <= 128 and key.isascii() and key.isprintable() else None

    def new_visitor_key(self) -> tuple[str, Header]:
        """A key for a new visitor, and the header that sets its cookie."""
        key = secrets.token_urlsafe(32)
        return key, self.header(self._visitor, key, self._ticket_s)

    def possession(self, request: Request, secret: str) -> str:
        """The proof that a place is the visitor's own: the digest of its secret or of the key."""
        shown = secret or self.visitor_key(request)
        return digest_of(shown) if shown else ""

    def ticket(self, request: Request, room: str) -> str:
        """The ticket in a request, or an empty text."""
        scheme, _, token = request.header("authorization").partition(" ")
        return _one_of(
            request.cookies.get(self.name("q", room), ""),
            token.strip() if scheme.lower() == "bearer" else "",
        )

    def keep_ticket(self, room: str, ticket: str) -> Header:
        """The header that sets the cookie of a ticket."""
        return self.header(self.name("q", room), ticket, self._ticket_s)

    def forget_ticket(self, room: str) -> Header:
        """The header that deletes the cookie of a ticket."""
        return self.header(self.name("q", room), "", 0)

    def session(self, request: Request, room: str) -> str:
        """The session token in a request, or an empty text."""
        return _one_of(request.cookies.get(self.name("s", room), ""), request.header("wr-session"))

    def keep_session(self, room: str, token: str, max_age: int) -> Header:
        """The header that sets the cookie of a session token."""
        return self.header(self.name("s", room), token, max_age)


def _one_of(cookie: str, header: str) -> str:
    if cookie and header and cookie != header:
        raise Problem(400, Code.AMBIGUOUS_TOKEN, "the cookie and the header disagree")
    return header or cookie


def digest_of(secret: str) -> str:
    """The SHA-256 of a secret in hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def require_own_site(request: Request) -> None:
    """Refuse what the page of another site sends in the visitor's name."""
    if b"sec-fetch-site" not in request.headers and b"origin" not in request.headers:
        return
    site = request.header("sec-fetch-site")
    origin = request.header("origin")
    foreign = origin and origin.partition("://")[2] != request.host
    if site in ("cross-site", "same-site") or (not site and foreign):
        raise Problem(403, Code.CROSS_SITE, "this must be sent by the room's own page")
