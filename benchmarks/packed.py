"""A client that does nothing but send: what it measures is the store.

Everything is packed before the clock starts, and a few commands are always under way.
"""

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any, Self, cast
from urllib.parse import urlsplit

import hiredis

IN_FLIGHT = 4


def packed(script: Any, keys: Any, **args: Any) -> bytes:
    """A call of a script, as it goes over the wire."""
    capture = _Capture()
    with contextlib.suppress(StopIteration):
        script.call_sync(capture, keys, **args)
    return _command(*capture.args)


class Wire:
    """A socket that sends packed commands with a few always under way."""

    def __init__(self, url: str, *scripts: Any) -> None:
        address = urlsplit(url)
        self._scripts = scripts
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = hiredis.Reader()

    def __enter__(self) -> Self:
        for script in self._scripts:
            self._socket.sendall(_command("SCRIPT", "LOAD", script.source))
            self._receive()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send_all(self, commands: Sequence[bytes]) -> float:
        """Send commands and take their replies; how many seconds that took."""
        began = time.perf_counter()
        for sent, command in enumerate(commands):
            self._socket.sendall(command)
            if sent >= IN_FLIGHT:
                self._receive()
        for _ in range(min(IN_FLIGHT, len(commands))):
            self._receive()
        return time.perf_counter() - began

    def _receive(self) -> None:
        while (reply := self._replies.gets()) is False:
            self._replies.feed(self._socket.recv(1 << 20))
        if isinstance(reply, hiredis.ReplyError):
            raise reply


class _Capture:
    """A client that keeps the command instead of sending it."""

    def execute_command(self, *args: Any) -> Any:
        self.args = args
        raise StopIteration


def _command(*args: Any) -> bytes:
    return cast(bytes, hiredis.pack_command(cast(Any, args)))
