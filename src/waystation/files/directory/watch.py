"""Which files of a tree have changed, as Linux tells; elsewhere nothing is told."""

import asyncio
import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Generator
from typing import Any

from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

_CREATE, _CLOSE_WRITE, _MOVED_TO = 0x100, 0x8, 0x80
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES = 0x4000, 0x8000, 0x01000000
_MASK = _CREATE | _CLOSE_WRITE | _MOVED_TO | _ONLY_DIRECTORIES
_HEAD = struct.Struct("iIII")
_BUFFER = 64 * 1024


class Inotify:
    """A watch over one tree; a hint that saves waiting, never the only way to find a file."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._directories: dict[int, str] = {}
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._libc: Any = None
        self._descriptor = -1
        self._is_full = False

    @classmethod
    @contextlib.contextmanager
    def over(cls, root: str) -> Generator["Inotify"]:
        """Watch a tree for as long as the block lasts."""
        watch = cls(root)
        watch._open()
        try:
            yield watch
        finally:
            watch._close()

    @property
    def works(self) -> bool:
        """Whether the kernel tells us anything."""
        return self._descriptor >= 0

    async def wait(self, at_most: float) -> set[str]:
        """The files and directories that changed; none when nothing did for so many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), at_most)
        self._woken.clear()
        changed, self._changed = self._changed, set()
        return changed

    def add(self, directory: str) -> None:
        """Watch one directory, from whatever thread walks it; before its files are listed."""
        if not self.works or self._is_full:
            return
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK)
        if number >= 0:
            self._directories[number] = directory
        elif ctypes.get_errno() == errno.ENOSPC:
            # The kernel's limit is reached; walking finds the rest.
            self._is_full = True
            _log.warning("watch_limit_reached", count=len(self._directories))

    def try_again(self) -> None:
        """Let directories be added again that the kernel's limit kept out."""
        self._is_full = False

    def _open(self) -> None:
        if sys.platform != "linux":
            return
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            self._descriptor = -1
        if self.works:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _close(self) -> None:
        if self.works:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _read(self) -> None:
        try:
            told = os.read(self._descriptor, _BUFFER)
        except BlockingIOError:
            return
        at = 0
        while at < len(told):
            number, mask, _, length = _HEAD.unpack_from(told, at)
            name = told[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
            at += _HEAD.size + length
            self._note(number, mask, os.fsdecode(name))
        self._woken.set()

    def _note(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            self._changed.add(self._root)
        elif mask & _IGNORED:
            self._directories.pop(number, None)
        elif directory := self._directories.get(number):
            self._changed.add(os.path.join(directory, name))
