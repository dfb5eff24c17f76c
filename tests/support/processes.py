"""A `waystation` process that a test runs beside itself, and what it writes to stderr."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from tests.support.patience import LIMIT_S


class Process:
    """A command that runs until it is stopped."""

    def __init__(self, popen: subprocess.Popen[bytes], errors: Path) -> None:
        self.popen = popen
        self._errors = errors

    @property
    def text(self) -> str:
        """Everything on stderr so far."""
        return self._errors.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines on stderr so far; the last may not be whole yet."""
        whole = self.text.rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in whole if line.startswith("{")]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        return [line for line in self.lines if line["msg"] == name]

    async def until(self, holds: Callable[["Process"], Any]) -> None:
        """Wait for something to be true of it."""
        async with asyncio.timeout(LIMIT_S):
            while not holds(self):
                assert self.popen.poll() is None, f"it has ended:\n{self.text}"
                await asyncio.sleep(0.02)

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the exit code."""
        self.popen.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """The exit code, when there is one."""
        async with asyncio.timeout(LIMIT_S):
            while self.popen.poll() is None:
                await asyncio.sleep(0.02)
        return self.popen.returncode


@contextlib.contextmanager
def running(directory: Path, *args: str, **environ: str) -> Generator[Process]:
    """A Python program in a directory, killed at the end if it still runs."""
    clean = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}
    errors = directory / "stderr.txt"
    with errors.open("wb") as out:
        popen = subprocess.Popen(
            [sys.executable, *args], cwd=directory, env=clean | environ, stderr=out
        )
        try:
            yield Process(popen, errors)
        finally:
            popen.kill()
            popen.wait()
