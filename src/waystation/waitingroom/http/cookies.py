"""Cookies of visitors: the key that makes a browser one visitor, its ticket and its session."""

import secrets

from waystation.core.http.cookies import Cookies, Header, digest_of
from waystation.core.http.exchange import Request
from waystation.core.http.problems import Problem
from waystation.waitingroom.http.codes import RoomCode


class VisitorCookies(Cookies):
    """Reads and writes the room's cookies, and the headers that apps send instead of them."""

    def __init__(self, *, secure: bool, ticket_s: int) -> None:
        super().__init__("wr_", secure=secure)
        self._ticket_s = ticket_s
        self._visitor = self.name("v")

    def visitor_key(self, request: Request) -> str | None:
        """The key of the visitor who asks; None for a new one."""
        cookie = request.cookies.get(self._visitor, "")
        header = request.header("wr-visitor")
        if cookie and header and cookie != header:
            raise Problem(400, RoomCode.AMBIGUOUS_VISITOR, "the cookie and Wr-Visitor disagree")
        key = cookie or header
        return key if 22 <= len(key) <= 128 and key.isascii() and key.isprintable() else None

    def new_visitor_key(self) -> tuple[str, Header]:
        """A key for a new visitor, and the header that sets its cookie."""
        key = secrets.token_urlsafe(32)
        return key, self.header(self._visitor, key, self._ticket_s)

    def possession(self, request: Request, secret: str) -> str:
        """The proof that a place is the visitor's own: the digest of its secret or of the key.

        Without either it is a text that proves nothing.
        """
        shown = secret or self.visitor_key(request)
        return digest_of(shown) if shown else "-"

    def ticket(self, request: Request, room: str) -> str:
        """The ticket in a request, or an empty text."""
        scheme, _, token = request.header("authorization").partition(" ")
        return _one_of(
            request.cookies.get(self.name("q", room), ""),
            token.strip() if scheme.lower() == "bearer" else "",
        )

    def keep_ticket(self, room: str, ticket: str, max_age: int | None = None) -> Header:
        """The header that sets the cookie of a ticket, for as long as any by default."""
        return self.header(
            self.name("q", room), ticket, self._ticket_s if max_age is None else max_age
        )

    def session(self, request: Request, room: str) -> str:
        """The session token in a request, or an empty text."""
        return _one_of(request.cookies.get(self.name("s", room), ""), request.header("wr-session"))

    def keep_session(self, room: str, token: str, max_age: int) -> Header:
        """The header that sets the cookie of a session token."""
        return self.header(self.name("s", room), token, max_age)


def _one_of(cookie: str, header: str) -> str:
    if cookie and header and cookie != header:
        raise Problem(400, RoomCode.AMBIGUOUS_TOKEN, "the cookie and the header disagree")
    return header or cookie
