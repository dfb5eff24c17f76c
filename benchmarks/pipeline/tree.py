"""Processor time of a process and of all that it starts: Java, and the workers that Java starts."""

import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

TICKS = os.sysconf("SC_CLK_TCK")
EVERY_S = 0.2


class Tree:
    """A program in a session of its own, so that all its processes are known by that session.

    They are looked at all the time, so that those that have ended count, too.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed at the end)
        self.process = subprocess.Popen(
            command,
            # With compiled modules, as everywhere: Spark starts Python several times.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            text=True,
        )
        self._seen: dict[int, int] = {}
        self._others: set[str] = set()
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look_again, daemon=True)
        self._watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watch.join()
        self.process.kill()
        self.process.wait()
        self._log.close()

    def cpu_s(self) -> float:
        """Seconds of processor time of all processes so far."""
        self._look()
        return sum(self._seen.values()) / TICKS

    def ask(self, text: str = "") -> str:
        """Send a line, and wait for the next one that the program writes."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        if text:
            stdin.write(f"{text}\n")
            stdin.flush()
        answer = stdout.readline()
        assert answer, self._said()
        return answer

    def wait(self) -> float:
        """Wait until it has ended; seconds of processor time in all."""
        self.process.communicate()
        assert self.process.returncode == 0, self._said()
        return self.cpu_s()

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:].decode(errors="replace")

    def _look_again(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        for name in os.listdir("/proc"):
            if name.isdigit() and name not in self._others:
                self._look_at(name)

    def _look_at(self, name: str) -> None:
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        # Session, and times in user and in system mode, counted from the field after the name.
        if int(fields[3]) == self.process.pid:
            self._seen[int(name)] = int(fields[11]) + int(fields[12])
        else:
            self._others.add(name)
