"""Programs that only a distribution brings, fetched for the commands that use them.

Where they cannot be had nothing fails here: the tests and measurements that want them say so.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools.step import ROOT, Unready, run, say


class Program(NamedTuple):
    """A program, the Debian package it is in, who uses it, and how to get it."""

    name: str
    package: str
    command: str
    used_by: str
    fetch: "Callable[[Program, Path], None]"
    once_in: str = ""
    """The package that held it in earlier releases."""


def provide(folder: Path, command: str) -> None:
    """Put a link to each program that the command uses into the folder, if it can be had."""
    folder.mkdir(parents=True, exist_ok=True)
    can_fetch = os.geteuid() == 0 and shutil.which("apt-get")
    for program in PROGRAMS:
        if can_fetch and program.command == command and _is_wanted(program, folder):
            _try_to_fetch(program, folder)


def _is_wanted(program: Program, folder: Path) -> bool:
    there = (folder / program.name).exists() or shutil.which(program.name)
    return not there and any((ROOT / program.used_by).glob("*.py"))


def _try_to_fetch(program: Program, folder: Path) -> None:
    # Without a network every try costs a minute, so there is one; `make clean` allows another.
    tried = folder / f".{program.name}-tried"
    if tried.exists():
        return
    tried.touch()
    say(f"Fetching {program.name} from the package {program.package} ...")
    try:
        program.fetch(program, folder / program.name)
    except Unready as reason:
        say(f"Going on without {program.name}: {str(reason).splitlines()[-1]}")


def _take_out(program: Program, link: Path) -> None:
    """Take the one file out of the package; installing it would start a server."""
    with tempfile.TemporaryDirectory(dir=link.parent) as aside:
        _update_lists()
        _download(program, Path(aside))
        (package,) = Path(aside).glob("*.deb")
        run(["dpkg-deb", "-x", package, aside], why=f"unpacking {program.package}")
        found = next(Path(aside, "usr").glob(f"*bin/{program.name}"), None)
        if found is None:
            raise Unready(f"{program.package} does not hold {program.name} here")
        shutil.move(found, link)


def _download(program: Program, folder: Path) -> None:
    download = ["apt-get", "-q", "download"]
    try:
        run([*download, program.package], why=f"downloading {program.package}", cwd=folder)
    except Unready:
        if not program.once_in:
            raise
        run([*download, program.once_in], why=f"downloading {program.once_in}", cwd=folder)


def _install(program: Program, link: Path) -> None:
    _update_lists()
    options = ["-q", "-y", "--no-install-recommends"]
    run(["apt-get", "install", *options, program.package], why=f"installing {program.package}")
    link.symlink_to(Path("/usr/bin") / program.name)


def _install_redis(program: Program, link: Path) -> None:
    # One program under several names; installed as redis-server it would start itself as well.
    _install(program._replace(name="redis-check-rdb"), link)


def _update_lists() -> None:
    # A fresh container has no lists, stale ones name packages that are gone.
    subprocess.run(["apt-get", "-q", "update"], capture_output=True, check=False)


PROGRAMS = (
    Program("promtool", "promtool", "test", "tests/core/telemetry", _take_out, "prometheus"),
    Program("chromium", "chromium", "test", "tests/browser", _install),
    # The same without windows, which shows a page for a quarter of the processor time.
    Program(
        "chromium-headless-shell", "chromium-headless-shell", "test", "tests/browser", _install
    ),
    Program("nginx", "nginx", "test", "tests/waitingroom/middleware", _take_out),
    Program("wrk", "wrk", "bench", "benchmarks/room", _install),
    Program("redis-server", "redis-tools", "test", "tests/servers", _install_redis),
)
