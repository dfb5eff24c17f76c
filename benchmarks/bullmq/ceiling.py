"""How fast the store itself can go: our own scripts from a client that does nothing but send.

Everything to be sent is packed beforehand, so what is measured is the store. The ids are known
because a fresh queue numbers its jobs from one, and the tokens because the client chooses them.
"""

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import hiredis

from waystation.queues.bullmq import scripts
from waystation.queues.bullmq.keys import QueueKeys

BATCH = 100
ADD_BATCH = 500
IN_FLIGHT = 4


def drain_rate(url: str, jobs: int) -> float:
    """Jobs a second through the settling and claiming script, a hundred at a time."""
    keys = QueueKeys(f"ceiling-{time.time_ns()}")
    with _Wire(url) as wire:
        wire.send_all(_adding(keys, jobs))
        return jobs / wire.send_all(_draining(keys, jobs))


def add_rate(url: str, jobs: int) -> float:
    """Jobs a second through the adding script, five hundred at a time."""
    keys = QueueKeys(f"ceiling-{time.time_ns()}")
    with _Wire(url) as wire:
        return jobs / wire.send_all(_adding(keys, jobs))


def _adding(keys: QueueKeys, jobs: int) -> list[bytes]:
    commands: list[bytes] = []
    for first in range(0, jobs, ADD_BATCH):
        rows: list[str] = []
        for n in range(first, min(first + ADD_BATCH, jobs)):
            rows += ["job", f'{{"n":{n}}}', '{"attempts":1}', ""]
        commands.append(_packed(scripts.add, keys, base=keys.base, now="", jobs=rows))
    return commands


def _draining(keys: QueueKeys, jobs: int) -> list[bytes]:
    commands: list[bytes] = []
    outcomes: list[str] = []
    for call, first in enumerate([*range(0, jobs, BATCH), jobs]):
        commands.append(
            _packed(
                scripts.settle,
                keys,
                base=keys.base,
                now="",
                token=f"token:{call}",
                lease_ms=30_000,
                want=BATCH if first < jobs else 0,
                worker="ceiling-1-00000000",
                max="",
                duration="",
                metrics="",
                outcomes=outcomes,
            )
        )
        outcomes = []
        for id in range(first + 1, min(first + BATCH, jobs) + 1):
            outcomes += ["completed", str(id), f"token:{call}", "null", ""]
    return commands


class _Capture:
    """A client that keeps the command instead of sending it."""

    def execute_command(self, *args: Any) -> Any:
        self.args = args
        raise StopIteration


def _packed(door: Any, keys: QueueKeys, **args: Any) -> bytes:
    capture = _Capture()
    with contextlib.suppress(StopIteration):
        door.call_sync(capture, keys, **args)
    return _command(*capture.args)


def _command(*args: Any) -> bytes:
    return cast(bytes, hiredis.pack_command(cast(Any, args)))


class _Wire:
    """A socket that sends packed commands with a few always under way."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = hiredis.Reader()

    def __enter__(self) -> "_Wire":
        for door in (scripts.add, scripts.settle):
            self._socket.sendall(_command("SCRIPT", "LOAD", door.source))
            self._receive()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send_all(self, commands: Sequence[bytes]) -> float:
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
