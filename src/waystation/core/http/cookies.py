"""Cookies of a server, and the check that a request comes from its own pages."""

import hashlib
from typing import TypeAlias

from waystation.core.http.exchange import Request
from waystation.core.http.problems import Code, Problem

Header: TypeAlias = tuple[bytes, bytes]


class Cookies:
    """The names of a server's cookies and the headers that set them."""

    def __init__(self, prefix: str, *, secure: bool) -> None:
        self._prefix = f"__Host-{prefix}" if secure else prefix
        self._flags = "; HttpOnly; SameSite=Lax; Secure" if secure else "; HttpOnly; SameSite=Lax"

    def name(self, kind: str, of: str = "") -> str:
        """The name of a cookie; the prefix makes browsers refuse one set by another host."""
        return f"{self._prefix}{kind}_{of}" if of else f"{self._prefix}{kind}"

    def header(self, name: str, value: str, max_age: int) -> Header:
        """The header that sets a cookie; with no age, the one that deletes it."""
        text = f"{name}={value}; Path=/; Max-Age={max_age}{self._flags}"
        return b"set-cookie", text.encode("latin-1")

    def strict_header(self, name: str, value: str, max_age: int) -> Header:
        """The same for a cookie that no link from elsewhere brings along."""
        header, text = self.header(name, value, max_age)
        return header, text.replace(b"SameSite=Lax", b"SameSite=Strict")


def digest_of(secret: str) -> str:
    """The SHA-256 of a secret in hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def require_own_site(request: Request) -> None:
    """Refuse what the page of another site sends in somebody's name."""
    if b"sec-fetch-site" not in request.headers and b"origin" not in request.headers:
        return
    site = request.header("sec-fetch-site")
    origin = request.header("origin")
    foreign = origin and origin.partition("://")[2] != request.host
    if site in ("cross-site", "same-site") or (not site and foreign):
        raise Problem(403, Code.CROSS_SITE, "this must be sent by the server's own page")
