"""`--reload`: run the command in a process of its own, and again whenever a source file changes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Annotated, TypeAlias

import typer

OPTION = "--reload"
CHILD = "WAYSTATION_RELOADED"
"""Set in the process that works, which must not watch in turn."""

Reload: TypeAlias = Annotated[
    bool,
    typer.Option(OPTION, help="Restart when a Python file below this directory changes."),
]

_EVERY_S = 0.5
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv"}


def supervise(wanted: bool) -> None:
    """Return at once in the process that works; with --reload, watch over it and never return."""
    if wanted and not os.environ.get(CHILD):
        sys.exit(Supervisor([sys.executable, "-m", "waystation", *sys.argv[1:]]).run())


class Supervisor:
    """Runs a command until asked to stop, and starts it anew when a source file changes."""

    def __init__(self, command: list[str], directory: Path | None = None) -> None:
        self._command = command
        self._directory = directory or Path.cwd()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self) -> int:
        """Run; returns the exit code of the last process."""
        before = {each: signal.signal(each, self._stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            code = 0
            while not self._stopped:
                seen = dict(modified(self._directory))
                code = self._run_until_changed(seen)
            return code
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _run_until_changed(self, seen: Mapping[str, float]) -> int:
        # A session of its own: Ctrl-C reaches only this process, which passes it on once.
        self._child = child = subprocess.Popen(  # noqa: S603
            self._command, env={**os.environ, CHILD: "1"}, start_new_session=True
        )
        ended = False
        while not self._stopped:
            if not ended and (ended := child.poll() is not None):
                if child.returncode == 0:
                    self._stopped = True
                    break
                typer.echo("waystation: waiting for a file to change", err=True)
            time.sleep(_EVERY_S)
            if (changed := _changed(seen, dict(modified(self._directory)))) and not self._stopped:
                typer.echo(f"waystation: {changed} changed, the worker restarts", err=True)
                child.terminate()
                break
        return child.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # A second signal means that the process should not finish its jobs; it decides itself.
        self._stopped = True
        if self._child and self._child.poll() is None:
            self._child.send_signal(number)


def modified(directory: Path) -> Iterator[tuple[str, float]]:
    """Every Python file below a directory with the time of its last change."""
    for at, folders, files in os.walk(directory):
        folders[:] = [each for each in folders if each not in _SKIPPED and each[0] != "."]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(at, name)
                try:
                    yield path, os.stat(path).st_mtime
                except OSError:  # gone in between
                    continue


def _changed(before: Mapping[str, float], now: Mapping[str, float]) -> str | None:
    paths = sorted(before.keys() | now.keys())
    return next((path for path in paths if before.get(path) != now.get(path)), None)
