"""What every step of setting up is made of."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Unready(Exception):
    """Something is missing that this program cannot bring; the message says what to do."""


def run(
    command: "list[str | Path]",
    *,
    why: str,
    cwd: Path = ROOT,
    env: "Mapping[str, str] | None" = None,
    limit_s: "float | None" = None,
) -> None:
    """Run a program quietly; when it fails, show what it said."""
    env = {name: value for name, value in (env or os.environ).items() if name != "VIRTUAL_ENV"}
    # The machine knows which certificates to trust, uv by itself only the public ones.
    env.setdefault("UV_SYSTEM_CERTS", "true")
    # Who waits for another one that builds a large package waits until it is built.
    env.setdefault("UV_LOCK_TIMEOUT", "3600")
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=limit_s
        )
    except subprocess.TimeoutExpired as late:
        raise Unready(f"{why} has not ended after {limit_s} s") from late
    if done.returncode:
        raise Unready(f"{why} failed\n{(done.stdout + done.stderr).strip()}")


def say(sentence: str) -> None:
    """Tell about a step that takes long."""
    print(sentence, flush=True)
