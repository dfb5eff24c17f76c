"""Requests to others that end in time, whatever the other side does.

A timeout of a socket is for one read of it: whoever sends a byte now and then is waited for without
end. Here one deadline holds for connecting, sending and the answer together.
"""

import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
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
    deadline = time.monotonic() + limit_s
    raw = socket.create_connection((address or host, port), limit_s)
    with _Cut(raw, deadline) as cut, closing(connection):
        try:
            connection.sock = cut.through_tls(host) if secure else raw
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            # What was cut off looks like an end to whoever reads so many bytes.
            read = answer.read(most) if most else b""
            cut.require_time()
        except (OSError, HTTPException):
            cut.require_time()
            raise
        return answer.status, read


class _Cut:
    """Ends a connection under whoever reads it when the time is up."""

    def __init__(self, raw: socket.socket, deadline: float) -> None:
        self._socket = raw
        self._deadline = deadline
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._cut)
        self._timer.daemon = True

    def __enter__(self) -> "_Cut":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._socket.close()

    def require_time(self) -> None:
        if time.monotonic() >= self._deadline:
            raise TimeoutError("there was no whole answer in time")

    def through_tls(self, host: str) -> socket.socket:
        # The handshake comes after, so that it can be cut off, too.
        secure = _context().wrap_socket(
            self._socket, server_hostname=host, do_handshake_on_connect=False
        )
        self._socket = secure
        secure.do_handshake()
        return secure

    def _cut(self) -> None:
        try:
            # Not the method of a TLS socket, which would let the rest be read as plain text.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
