"""Requests to others that end in time, whatever the other side does.

A timeout of a socket is for one read of it: whoever sends a byte now and then is waited for without
end. Here one deadline holds for connecting, sending and the answer together.
"""

import ssl
import time
from collections.abc import Mapping
from contextlib import closing
from functools import cache, partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import create_connection, socket
from typing import Any
from urllib.parse import urlsplit

MOST_READ = 65_536


def ask(
    method: str,
    url: str,
    *,
    limit_s: float,
    address: str | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    most: int = MOST_READ,
) -> tuple[int, bytes]:
    """The status of the answer and its first bytes; it blocks, and follows no redirect.

    `address` is where to connect to instead of what the name stands for. OSError or HTTPException
    say that there was no answer, TimeoutError that it took too long.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = (
        HTTPSConnection(host, port, context=_context()) if secure else HTTPConnection(host, port)
    )
    until = time.monotonic() + limit_s
    with closing(create_connection((address or host, port), limit_s)) as raw, closing(connection):
        raw.settimeout(_left_s(until))
        # A handshake has this time as a whole.
        connection.sock = _context().wrap_socket(raw, server_hostname=host) if secure else raw
        answer_within(connection, until)
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read(most) if most else b""


def answer_within(connection: HTTPConnection, until: float) -> None:
    """Have the next answer of a connection read before this instant of the monotonic clock."""
    if connection.sock is not None:
        connection.sock.settimeout(_left_s(until))
    connection.response_class = partial(_Answer, until=until)  # pyright: ignore


class _Answer(HTTPResponse):
    def __init__(self, sock: socket, *args: Any, until: float, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = BufferedReader(_Reads(sock, self.fp.detach(), until))


class _Reads(RawIOBase):
    def __init__(self, sock: socket, raw: Any, until: float) -> None:
        self._sock = sock
        self._raw = raw
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left_s(self._until))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left_s(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the whole answer took too long")
    return left_s


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
