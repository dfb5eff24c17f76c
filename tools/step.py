"""What every step of setting up is made of."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Unready(Exception):
    """Something is missing that this program cannot bring; the message says what to do."""


def run(command: "list[str | Path]", *, why: str, cwd: Path = ROOT) -> None:
    """Run a program quietly; when it fails, show what it said."""
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    # The machine knows which certificates to trust, uv by itself only the public ones.
    env.setdefault("UV_SYSTEM_CERTS", "true")
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unready(f"{why} failed\n{(done.stdout + done.stderr).strip()}")


def say(sentence: str) -> None:
    """Tell about a step that takes long."""
    print(sentence, flush=True)
