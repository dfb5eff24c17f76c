"""Environments with other packages than the project's own, for the long lane.

    python -m tools.environments spark-4.2.1 pyspark==4.2.1

Each is a folder in `.tools` with its own Python. A stamp tells what is there, so that a second run
has nothing to do.
"""

import fcntl
import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Sequence
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


def packages_for_ours(name: str, *packages: str) -> Path:
    """A folder with packages that this project's own Python finds when it is on PYTHONPATH.

    All others have the versions that the project pins.
    """
    folder, pins = TOOLS / name, _pins()
    wanted = _digest(sys.version, *packages, *pins)

    def install(limits: Path) -> None:
        into = ["--quiet", "--python", sys.executable, "--target", folder, "--constraints", limits]
        run([UV, "pip", "install", *into, *packages], why=f"installing {' '.join(packages)}")

    _make(folder, wanted, pins, install)
    return folder


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
    python = folder / "bin" / "python"
    wanted = _digest(sys.version, *packages, *pins, (ROOT / "pyproject.toml").read_text())

    def install(limits: Path) -> None:
        run([UV, "venv", "--python", sys.executable, "--allow-existing", folder], why="making it")
        into = ["--quiet", "--python", python, "--constraints", limits]
        run([UV, "pip", "install", *into, *packages], why=f"installing {' '.join(packages)}")

    _make(folder, wanted, pins, install)
    return python


def _make(folder: Path, wanted: str, pins: Sequence[str], install: Callable[[Path], None]) -> None:
    """Fill a folder anew, unless its stamp says that it holds what is wanted."""
    stamp, limits = folder / "ready", folder / "pins.txt"
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f"{folder.name}.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        if not UV.exists():
            raise Unready("uv is not here; `make test` brings it")
        say(f"Making the environment {folder.name} ...")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        limits.write_text("\n".join(pins))
        install(limits)
        stamp.write_text(wanted)


def _pins() -> "list[str]":
    lines = PINS.read_text().splitlines()
    return [line.rstrip(" \\") for line in lines if re.match(r"[\w.-]+==", line)]


def _name(package: str) -> str:
    return re.split(r"[=<>~!\[ ;]", package)[0].lower()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
