"""Make the project's own folder ready for a command, with nothing but Python at hand.

Everything lands in `.venv` and `.tools`. A stamp tells what is there, so that a second run has
nothing to do.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tools import machine
from tools.step import ROOT, Unready, run, say

VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
BRING = ROOT / "packages" / "bring"
"""A package of its own, which the tests run as well."""
STAMP = "ready"
OLDEST_PYTHON = (3, 11)

SETS = {"demo": ("demo", "test"), "test": ("test",), "bench": ("test",)}
"""What a command may need, and the sets of packages that hold it, the smallest first."""


def main() -> int:
    """Get ready for the command named on the command line."""
    try:
        make_ready(sys.argv[1] if len(sys.argv) > 1 else "")
    except Unready as reason:
        print(f"waystation is not ready: {reason}", file=sys.stderr)
        return 2
    return 0


def make_ready(what: str) -> None:
    """Install what the command needs, unless it is there."""
    if what not in SETS:
        raise Unready(f"wanted one of {', '.join(SETS)}, got {what!r}")
    if sys.version_info[:2] < OLDEST_PYTHON:
        raise Unready(
            "wanted Python {}.{} or newer, got {}.{}; ".format(*OLDEST_PYTHON, *sys.version_info)
            + "`make PYTHON=python3.12 ...` names another one"
        )
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not is_ready(what):
            _install(SETS[what][0])
        machine.provide(TOOLS / "bin", what)


def is_ready(what: str) -> bool:
    """Whether the environment holds what the command needs, as the requirements are now."""
    return (VENV / "bin" / "python").exists() and any(
        _stamped("home") == _home() and _stamped(each) == _wanted(each) for each in SETS[what]
    )


def _install(what: str) -> None:
    requirements = ROOT / "requirements" / f"{what}.txt"
    count = sum("==" in line for line in requirements.read_text().splitlines())
    uv = _uv()
    python = VENV / "bin" / "python"
    if not (python.exists() and _stamped("home") == _home()):
        say(f"Making an environment in {VENV.name} ...")
        run([uv, "venv", "--clear", "--python", sys.executable, VENV], why="making an environment")
    say(f"Installing what `make {what}` needs: {count} packages ...")
    (VENV / STAMP).unlink(missing_ok=True)
    into = ["--quiet", "--python", python]
    packages = ["--require-hashes", requirements]
    itself = ["--no-deps", "--no-build-isolation", "--editable", ROOT, "--editable", BRING]
    run([uv, "pip", "sync", *into, *packages], why="installing packages")
    run([uv, "pip", "install", *into, *itself], why="installing waystation itself")
    _stamp(what)


def _uv() -> Path:
    """The pinned uv, brought by pip."""
    home = TOOLS / "uv"
    pinned = ROOT / "requirements" / "uv.txt"
    stamp = home / "ready"
    if not (stamp.exists() and stamp.read_text() == pinned.read_text()):
        say("Fetching uv, the installer ...")
        shutil.rmtree(home, ignore_errors=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes"]
        install = [*_pip(), "install", *options, "--target", home, "-r", pinned]
        run(install, why="fetching uv")
        stamp.write_text(pinned.read_text())
    return home / "bin" / "uv"


def _pip() -> "list[str | Path]":
    """A pip to begin with: this Python's own, else one in an environment made for it."""
    if _works([sys.executable, "-m", "pip", "--version"]):
        return [sys.executable, "-m", "pip"]
    home = TOOLS / "pip"
    if not _works([sys.executable, "-m", "venv", home]):
        raise Unready(
            "this Python has neither pip nor venv; on Debian and Ubuntu "
            "`apt install python3-venv` brings both"
        )
    return [home / "bin" / "python", "-m", "pip"]


def _works(command: "list[str | Path]") -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _stamp(what: str) -> None:
    (VENV / STAMP).write_text(f"home {_home()}\n{what} {_wanted(what)}\n")


def _stamped(name: str) -> str:
    file = VENV / STAMP
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(line.split(" ", 1) for line in lines).get(name, "")


def _home() -> str:
    """What an environment is made for: it survives neither another Python nor a move."""
    return _digest(sys.version.encode(), str(ROOT).encode())


def _wanted(what: str) -> str:
    files = (
        ROOT / "requirements" / f"{what}.txt",
        ROOT / "pyproject.toml",
        BRING / "pyproject.toml",
    )
    return _digest(*(file.read_bytes() for file in files))


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
