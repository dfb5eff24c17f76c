"""Requests to addresses that somebody typed in, which must not lead back inside.

The name is resolved once, what it stands for is judged, and the connection goes to the address that
was judged: a name that means something else a moment later changes nothing. Redirects are not
followed.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, urlsplit

from waystation.core.errors import InvalidOption
from waystation.interfaces.api.http.addresses import Network

PATIENCE_S = 5.0
LONGEST_URL = 500


class Unreachable(Exception):
    """Nobody answered, or nobody who may be asked."""


def checked(url: str, inside: Sequence[Network]) -> str:
    """An address that may be asked at all; InvalidOption says why another may not."""
    parts = _split(url)
    if parts.scheme == "http" and inside:
        return url
    if parts.scheme != "https":
        raise InvalidOption("a webhook's url must start with https://")
    return url


def post(url: str, body: bytes, headers: Mapping[str, str], inside: Sequence[Network]) -> int:
    """Send a body and say what status came back."""
    parts = _split(checked(url, inside))
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    address = _allowed(host, port, inside, secure=parts.scheme == "https")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with closing(_connection(parts.scheme, host, address, port)) as connection:
            connection.request("POST", path, body, dict(headers))
            answer = connection.getresponse()
            answer.read(1024)
            return answer.status
    except (OSError, HTTPException) as error:
        raise Unreachable(f"{host} does not answer: {type(error).__name__}") from error


def _split(url: str) -> SplitResult:
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidOption("a webhook's url cannot be read") from None
    if not plain or len(url) > LONGEST_URL or not parts.hostname or "@" in parts.netloc:
        raise InvalidOption("a webhook's url must be plain, short and without a user in it")
    return parts


def _allowed(host: str, port: int, inside: Sequence[Network], *, secure: bool) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"nobody knows {host}") from error
    for *_, place in found:
        address = ip_address(str(place[0]).partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        own = any(address in network for network in inside)
        if own or (secure and _is_public(address)):
            return str(address)
    raise Unreachable(f"{host} leads inside, where no webhook may go")


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast


def _connection(scheme: str, host: str, address: str, port: int) -> HTTPConnection:
    if scheme == "http":
        plain = HTTPConnection(host, port, timeout=PATIENCE_S)
        plain.sock = socket.create_connection((address, port), PATIENCE_S)
        return plain
    secure = HTTPSConnection(host, port, timeout=PATIENCE_S, context=_context())
    raw = socket.create_connection((address, port), PATIENCE_S)
    try:
        secure.sock = _context().wrap_socket(raw, server_hostname=host)
    except OSError:
        raw.close()
        raise
    return secure


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
