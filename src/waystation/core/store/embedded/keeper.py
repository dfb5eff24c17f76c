"""Keep a server running for as long as somebody holds a lock; a small program of its own.

Whoever uses the server holds a shared lock on one file. The keeper asks for the same lock alone, so
the kernel wakes it when the last user is gone, however that user went. The keeper and its server
hold a lock of their own, so that no second server starts where one lives, even if it is silent. It
imports nothing of ours: it runs as `python keeper.py MODE LOCK SERVER ...`, where MODE is `respawn`
or `once`.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PAUSE_BETWEEN_STARTS = 0.2
MOST_STARTS = 100
PR_SET_PDEATHSIG = 1


class Keeper:
    """Starts the server, starts it again when it falls over, ends it when nobody is left."""

    def __init__(self, command: list[str], lock: Path, kept: int, *, respawn: bool) -> None:
        self._command = command
        self._kept = kept
        self._lock = lock
        self._respawn = respawn
        self._unused = False
        self._changing = threading.Lock()
        self._server = self._start()

    def run(self) -> None:
        """Return when the server is no longer needed and gone."""
        ending = threading.Thread(target=self._end_when_unused, daemon=True)
        ending.start()
        for _ in range(MOST_STARTS if self._respawn else 1):
            self._server.wait()
            if self._unused:
                ending.join()
            if not self._respawn:
                return
            time.sleep(PAUSE_BETWEEN_STARTS)
            with self._changing:
                if not self._unused:
                    self._server = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        # The server inherits the lock, which is held until the last of them has ended.
        return subprocess.Popen(  # noqa: S603
            self._command, preexec_fn=_end_with_parent, pass_fds=[self._kept]
        )

    def _end_when_unused(self) -> None:
        with self._lock.open("rb") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            with self._changing:
                self._unused = True
            # The lock is kept until the server is gone, so that the next user starts afresh.
            self._end()
            if not self._respawn:
                shutil.rmtree(self._lock.parent, ignore_errors=True)
            os._exit(0)

    def _end(self) -> None:
        # A server that is busy writing its first log refuses to leave, so it is asked again.
        while self._server.poll() is None:
            self._server.send_signal(signal.SIGTERM if self._respawn else signal.SIGKILL)
            try:
                self._server.wait(timeout=PAUSE_BETWEEN_STARTS)
            except subprocess.TimeoutExpired:
                continue


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    mode, lock, *command = sys.argv[1:]
    kept = os.open(Path(lock).with_name("server.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    # Before whoever has started this one goes on; a BlockingIOError ends it.
    fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # A shared server outlives whoever happened to start it, so its keeper is nobody's child.
    if mode == "respawn" and os.fork():
        os._exit(0)
    Keeper(command, Path(lock), kept, respawn=mode == "respawn").run()
