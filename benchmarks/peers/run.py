"""Run a peer's benchmark and read its figures.

`python -m benchmarks.peers.run --url redis://localhost node_drain concurrency=200` prints them.
"""

import argparse
import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import msgspec

from tests.wire.install import PROJECT, find_node, installed

HERE = Path(__file__).parent
NODE_RELEASE = "6.7.0"
UV = PROJECT / ".tools" / "uv" / "bin" / "uv"
PROGRAMS = {
    path.stem: path for path in sorted([*HERE.glob("node_*.mjs"), *HERE.glob("python/*_*.py")])
}


class PeerFailed(Exception):
    """A peer's program ended without figures."""


async def measure(program: str, url: str, **options: Any) -> dict[str, Any]:
    """The figures of one program, by its name; the options are the ones it knows."""
    if program not in PROGRAMS:
        raise PeerFailed(f"wanted one of {', '.join(PROGRAMS)}, got {program}")
    path = PROGRAMS[program]
    if path.suffix == ".mjs":
        folder = await asyncio.to_thread(installed, NODE_RELEASE)
        command = [find_node().program, str(path)]
    else:
        folder = path.parent
        command = _in_its_own_environment(path)
    flags = [f"--{name}={value}" for name, value in {"url": url, **options}.items()]
    return await _figures(program, [*command, *flags], folder)


async def measure_ours(task: str, url: str, **options: Any) -> dict[str, Any]:
    """The figures of our own side, in a process of its own as the peers are."""
    given = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "benchmarks.bullmq.ours", task, "--url", url, *given]
    return await _figures(task, command, PROJECT)


def _in_its_own_environment(path: Path) -> list[str]:
    """The program says at its top what it needs; the peers do not agree on one redis-py."""
    return [
        *(str(UV), "run", "--quiet", "--no-project"),
        *("--python", sys.executable, "--script", str(path)),
    ]


async def _figures(program: str, command: list[str], folder: Path) -> dict[str, Any]:
    env = {"UV_SYSTEM_CERTS": "true", **os.environ}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=env, stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate()
    if process.returncode != 0 or not out.strip():
        raise PeerFailed(f"{program} ended with {process.returncode}: {err.decode().strip()}")
    return msgspec.json.decode(out.splitlines()[-1])


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
