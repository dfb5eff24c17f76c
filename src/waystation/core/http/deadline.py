"""One deadline for a whole request over HTTP, however slowly the answer drips.

The timeout of a socket is one for each read, so a peer that sends a byte now and then is read for
as long as it likes; here every read has only the time that is left.
"""

import time
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from io import BufferedReader, RawIOBase
from socket import socket
from typing import Any


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
