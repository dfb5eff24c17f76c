"""Run a peer's benchmark and read its figures.

`python -m benchmarks.peers.run --url redis://localhost node_drain concurrency=200` prints them.
"""

import argparse
import asyncio
import fcntl
import subprocess
import sys
import venv
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import msgspec

from tests.wire.install import PROJECT, find_node, installed

HERE = Path(__file__).parent
NODE_RELEASE = "6.7.0"
PORT_PINS = HERE / "python_port.txt"
PORT_HOME = PROJECT / ".tools" / "python" / "bullmq-port"
PROGRAMS = ("node_drain", "node_add", "node_fill", "node_latency", "python_drain")


class PeerFailed(Exception):
    """A peer's program ended without figures."""


async def measure(program: str, url: str, **options: Any) -> dict[str, Any]:
    """The figures of one program, by its name; the options are the ones it knows."""
    if program not in PROGRAMS:
        raise PeerFailed(f"wanted one of {', '.join(PROGRAMS)}, got {program}")
    if program.startswith("node_"):
        folder = await asyncio.to_thread(installed, NODE_RELEASE)
        command = [find_node().program, str(HERE / f"{program}.mjs")]
    else:
        folder = HERE
        command = [str(await asyncio.to_thread(_port_python)), str(HERE / f"{program}.py")]
    flags = [f"--{name}={value}" for name, value in {"url": url, **options}.items()]
    return await _figures([*command, *flags], folder)


async def _figures(command: list[str], folder: Path) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    if process.returncode != 0 or not out.strip():
        program = Path(command[1]).name
        raise PeerFailed(f"{program} ended with {process.returncode}: {err.decode().strip()}")
    return msgspec.json.decode(out.splitlines()[-1])


def _port_python() -> Path:
    """The interpreter of the environment that holds the Python port, made when it is missing."""
    stamp = PORT_HOME / PORT_PINS.name
    PORT_HOME.mkdir(parents=True, exist_ok=True)
    with PORT_HOME.with_suffix(".lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_bytes() != PORT_PINS.read_bytes():
            _make_port_environment()
            stamp.write_bytes(PORT_PINS.read_bytes())
    return PORT_HOME / "bin" / "python"


def _make_port_environment() -> None:
    venv.create(PORT_HOME, clear=True, with_pip=True)
    pip = [str(PORT_HOME / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    done = subprocess.run(
        [*pip, "--requirement", str(PORT_PINS)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PeerFailed(f"pip could not install the Python port: {done.stderr.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("options", nargs="*", metavar="name=value")
    parser.add_argument("--url", required=True)
    given = parser.parse_args()
    options = dict(option.split("=", 1) for option in given.options)
    try:
        figures = asyncio.run(measure(given.program, given.url, **options))
    except PeerFailed as failed:
        sys.exit(str(failed))
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
