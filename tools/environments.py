"""Environments with other packages than the project's own, for the long lane.

    python -m tools.environments spark-4.2.1 pyspark==4.2.1

Each is a folder in `.tools` with its own Python. A stamp tells what is there, so that a second run
has nothing to do.
"""

import fcntl
import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bootstrap import TOOLS
from tools.step import ROOT, Unready, run, say

UV = TOOLS / "uv" / "bin" / "uv"
PINS = ROOT / "requirements" / "test.txt"
OURS = ("--editable", f"{ROOT}[ask]")
"""This project with what its questions need, but not with its Spark."""


def python_with(name: str, *packages: str) -> Path:
    """The Python of an environment with these packages, in the versions that they ask for."""
    return _ready(name, packages, ())


def python_with_ours(name: str, *packages: str) -> Path:
    """The Python of an environment with this project and these packages.

    All others have the versions that the project pins.
    """
    given = {_name(each) for each in packages}
    pins = [each for each in _pins() if _name(each) not in given]
    return _ready(name, [*packages, *OURS], pins)


def main() -> int:
    """Make the environment named on the command line, and print its Python."""
    try:
        name, *packages = sys.argv[1:]
        print(python_with_ours(name, *packages))
    except ValueError:
        sys.exit(__doc__)
    except Unready as reason:
        print(f"the environment is not ready: {reason}", file=sys.stderr)
        return 2
    return 0


def _ready(name: str, packages: Sequence[str], pins: Sequence[str]) -> Path:
    folder = TOOLS / name
    python, stamp = folder / "bin" / "python", folder / "ready"
    wanted = _digest(sys.version, *packages, *pins, (ROOT / "pyproject.toml").read_text())
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{name}.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return python
        if not UV.exists():
            raise Unready("uv is not here; `make test` brings it")
        say(f"Making the environment {name} ...")
        run([UV, "venv", "--clear", "--python", sys.executable, folder], why="making it")
        limits = folder / "pins.txt"
        limits.write_text("\n".join(pins))
        into = ["--quiet", "--python", python, "--constraints", limits]
        run([UV, "pip", "install", *into, *packages], why=f"installing {' '.join(packages)}")
        stamp.write_text(wanted)
    return python


def _pins() -> "list[str]":
    lines = PINS.read_text().splitlines()
    return [line.rstrip(" \\") for line in lines if re.match(r"[\w.-]+==", line)]


def _name(package: str) -> str:
    return re.split(r"[=<>~!\[ ;]", package)[0].lower()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
