"""The address of a store, read from a URL.

    redis://user:secret@host:6379/0              one server
    unix:///run/redis.sock?db=0                  one server on this machine
    redis+sentinel://a:26379,b:26379/service/0   whichever server the sentinels say
    redis+cluster://a:6379,b:6379                a cluster

`rediss` instead of `redis` speaks TLS.
"""

import re
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from waystation.core.errors import InvalidUrl

FORMS = (
    "redis://host:port/db, rediss://…, unix:///path, redis+sentinel://host:port,…/service/db "
    "or redis+cluster://host:port,…"
)
TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")

_MOST_DATABASES = 1 << 14
_URL = re.compile(
    r"(?!.*[\x00-\x1f])(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)


class Kind(StrEnum):
    """How the servers behind an address are arranged."""

    SINGLE = "single"
    SOCKET = "socket"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A checked address; its text never shows the password."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    tls: bool = False
    username: str | None = None
    password: str | None = None
    tls_options: dict[str, str | bool] = {}

    def __str__(self) -> str:
        who = f"{self.username or ''}:***@" if self.password else ""
        where = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.hosts)
        scheme = "rediss" if self.tls else "redis"
        match self.kind:
            case Kind.SOCKET:
                return f"unix://{who}{self.path}?db={self.db}"
            case Kind.SENTINEL:
                return f"{scheme}+sentinel://{who}{where}/{self.service}/{self.db}"
            case Kind.CLUSTER:
                return f"{scheme}+cluster://{who}{where}"
            case Kind.SINGLE:
                return f"{scheme}://{who}{where}/{self.db}"

    __repr__ = __str__


class _Parts(NamedTuple):
    """A URL as RFC 3986 takes it apart; the standard library's way wants one host only."""

    scheme: str
    authority: str
    path: str
    query: str
    fragment: str

    @classmethod
    def of(cls, url: str) -> Self:
        found = _URL.fullmatch(url)
        if found is None:
            _refuse("nothing but what can be seen", "a line end or the like")
        scheme, *rest = found.groups(default="")
        return cls(scheme.lower(), *rest)


def parse(url: str) -> Address:
    """Read an address; anything not understood is refused rather than guessed."""
    parts = _Parts.of(url.strip())
    scheme, _, arrangement = parts.scheme.partition("+")
    if parts.scheme == "unix":
        kind = Kind.SOCKET
    elif scheme in ("redis", "rediss") and arrangement in ("", "sentinel", "cluster"):
        kind = Kind(arrangement or "single")
    else:
        _refuse(FORMS, f"the scheme {parts.scheme!r}" if parts.scheme else "no scheme")
    if "@" in parts.path or "@" in parts.query:
        _refuse("a password without '/' and '?'", "one that ends there (write them as %2F and %3F)")
    if parts.fragment:
        _refuse("no fragment", "a '#' (write it as %23)")
    who, _, where = parts.authority.rpartition("@")
    username, _, password = (unquote(text) for text in who.partition(":"))
    query = _query(parts.query, tls=scheme == "rediss")
    place = _place(kind, where, unquote(parts.path), query.pop("db", None))
    return Address(
        kind=kind,
        tls=scheme == "rediss",
        username=username or None,
        password=password or None,
        tls_options={
            name: value == "true" if name == "ssl_check_hostname" else value
            for name, value in query.items()
        },
        **place,
    )


def _place(kind: Kind, where: str, path: str, db: str | None) -> dict[str, Any]:
    steps = [step for step in path.split("/") if step]
    match kind:
        case Kind.SOCKET:
            if where or not steps:
                _refuse("the socket's absolute path, as in unix:///run/redis.sock", "none")
            return {"path": path, "db": _database(db)}
        case Kind.SENTINEL:
            if len(steps) not in (1, 2):
                _refuse("/service or /service/db after the sentinels", repr(path))
            hosts = _hosts(where, default=26379)
            return {"hosts": hosts, "service": steps[0], "db": _database(db, *steps[1:])}
        case Kind.CLUSTER:
            if _database(db, *steps):
                _refuse("database 0, the only one of a cluster", repr(path))
            return {"hosts": _hosts(where, default=6379)}
        case Kind.SINGLE:
            hosts = _hosts(where, default=6379)
            if len(hosts) != 1:
                _refuse("one host, or redis+sentinel:// or redis+cluster://", f"{len(hosts)} hosts")
            return {"hosts": hosts, "db": _database(db, *steps)}


def _hosts(where: str, *, default: int) -> tuple[tuple[str, int], ...]:
    return tuple(_host(each, default) for each in where.split(","))


def _host(text: str, default: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:
        _refuse(
            "hosts as in redis://host:6379/0 or redis://[::1]:6379/0", "one that cannot be read"
        )
    host = parts.hostname
    if not host:
        # What stands here may be a password without its @, so it is not repeated.
        _refuse("a host, as in redis://:password@host:6379/0", "none")
    try:
        port = default if parts.port is None else parts.port
    except ValueError:
        port = 0
    if not 0 < port < 1 << 16:
        _refuse(f"a port between 1 and 65535 behind {host!r}", "another")
    return unquote(host), port


def _database(*given: str | None) -> int:
    found = [each for each in given if each is not None]
    if not found:
        return 0
    text = found[0]
    if len(found) > 1 or not (text.isascii() and text.isdigit()) or int(text) >= _MOST_DATABASES:
        _refuse("one database number", " and ".join(map(repr, found)))
    return int(text)


def _query(text: str, *, tls: bool) -> dict[str, str]:
    known = ("db", *TLS_OPTIONS) if tls else ("db",)
    options = dict(parse_qsl(text, keep_blank_values=True))
    for name in options:
        if name not in known:
            _refuse(f"only {', '.join(known)} after '?'", repr(name))
    return options


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refuse(wanted: str, came: str) -> NoReturn:
    raise InvalidUrl(f"the store's URL must have {wanted}; got {came}") from None
