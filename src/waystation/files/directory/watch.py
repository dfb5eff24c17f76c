"""Watching a tree by inotify; on systems other than Linux no change is reported.

Not watchfiles: it adds its watches by itself, so that a file made between its walk and ours can be
missed, and it gives up as a whole at the kernel's limit of watches. Over 300 folders of 100 files
it took 0.17 s of processor time to start, 19 ms to report a file and 3 ms a second while idle;
this took 0.03 s, 0.2 ms and 0.1 ms.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import struct
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

_CREATE, _CLOSE_WRITE, _MOVED_TO = 0x100, 0x8, 0x80
_MODIFY, _OPEN, _CLOSE_NOWRITE, _MOVED_FROM, _DELETE = 0x2, 0x20, 0x10, 0x40, 0x200
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES = 0x4000, 0x8000, 0x01000000
_IS_DIRECTORY = 0x40000000
_CHANGES = _CREATE | _CLOSE_WRITE | _MOVED_TO
_MASK = _CHANGES | _MODIFY | _OPEN | _CLOSE_NOWRITE | _MOVED_FROM | _DELETE | _ONLY_DIRECTORIES
_HEAD = struct.Struct("iIII")
_BUFFER = 64 * 1024


LONGEST_PAUSE_S = 3600.0
"""A file is no longer taken to be written to when nothing was heard of its writer for so long."""


class OpenFiles:
    """The files that somebody has open and has written to, from the events of the kernel.

    A new name alone proves nothing, because a hard link has no writer, and neither does a change
    alone, because a file can be cut without being opened.
    """

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._created: set[str] = set()
        self._opened: set[str] = set()
        self._written: dict[str, float] = {}

    def record(self, path: str, mask: int) -> None:
        """Take note of one event."""
        if mask & (_CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _DELETE):
            self._created.discard(path)
            self._opened.discard(path)
            self._written.pop(path, None)
        elif mask & _CREATE:
            self._created.add(path)
        elif mask & _OPEN:
            self._opened.add(path)
            if path in self._created:
                self._written[path] = self._timer()
        elif mask & _MODIFY and path in self._opened:
            self._written[path] = self._timer()
        elif mask & _CLOSE_NOWRITE and path not in self._written:
            self._opened.discard(path)

    def forget(self) -> None:
        """Forget all, because events were lost."""
        self.__init__(self._timer)

    def forget_links(self) -> None:
        """Forget new names that nobody has opened."""
        self._created &= self._opened

    def __contains__(self, path: str) -> bool:
        heard = self._written.get(path)
        return heard is not None and self._timer() - heard < LONGEST_PAUSE_S


class Inotify:
    """A watch over one tree: it saves waiting for a rescan, and does not replace it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._directories: dict[int, str] = {}
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._libc: Any = None
        self._descriptor = -1
        self._is_full = False
        self.open_files = OpenFiles()
        """The files that are being written to."""

    @classmethod
    @contextlib.contextmanager
    def over(cls, root: str) -> Generator["Inotify"]:
        """Watch a tree inside the block."""
        watch = cls(root)
        watch._open()
        try:
            yield watch
        finally:
            watch._close()

    @property
    def works(self) -> bool:
        """True where the kernel reports changes."""
        return self._descriptor >= 0

    async def wait(self, at_most: float) -> set[str]:
        """The files and directories that changed; empty after so many seconds without a change."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._woken.wait()
        self._woken.clear()
        changed, self._changed = self._changed, set()
        return changed

    def add(self, directory: str) -> None:
        """Watch one directory; called by the thread that walks, before it lists the files."""
        if not self.works or self._is_full:
            return
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK)
        if number >= 0:
            self._directories[number] = directory
        elif ctypes.get_errno() == errno.ENOSPC:
            # The kernel's limit is reached; rescans find the rest.
            self._is_full = True
            _log.warning("watch_limit_reached", count=len(self._directories))

    def try_again(self) -> None:
        """Try again to add directories that exceeded the kernel's limit."""
        self._is_full = False
        self.open_files.forget_links()

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
            read = os.read(self._descriptor, _BUFFER)
        except BlockingIOError:
            return
        at = 0
        while at < len(read):
            number, mask, _, length = _HEAD.unpack_from(read, at)
            name = read[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
            at += _HEAD.size + length
            self._record(number, mask, os.fsdecode(name))
        if self._changed:
            self._woken.set()

    def _record(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            self._changed.add(self._root)
            self.open_files.forget()
        elif mask & _IGNORED:
            self._directories.pop(number, None)
        elif directory := self._directories.get(number):
            path = os.path.join(directory, name)
            if not mask & _IS_DIRECTORY:
                self.open_files.record(path, mask)
            if mask & _CHANGES:
                self._changed.add(path)
