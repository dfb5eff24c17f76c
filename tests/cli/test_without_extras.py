"""Commands of an installation without extras."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Finished
from waystation.bullmq import Queue
from waystation.waitingroom import Room, RoomOptions

BLOCK = """
import sys

MISSING = {
    "cryptography", "deltalake", "duckdb", "granian", "httpx2", "joserfc", "pyarrow", "pyspark",
    "textual", "uvloop",
}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


Bare = Callable[..., Finished]


@pytest.fixture
async def bare(redis_url: str, tmp_path: Path) -> Bare:
    """The command where no extra is installed, on a store with a queue and a room."""
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    clean = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}
    async with Queue("mail", redis_url) as queue:
        await queue.add("welcome", {})
    async with Room("sale", redis_url) as room:
        await room.open(RoomOptions())

    def run(*args: str) -> Finished:
        return subprocess.run(
            [sys.executable, "-m", "waystation", *args],
            cwd=tmp_path,
            env=clean | {"PYTHONPATH": str(tmp_path), "WAYSTATION_STORE__URL": redis_url},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("queues", "--over", "0"), "mail"),
        (("why", "mail"), "Queue mail has nobody who works on it"),
        (("why", "sale"), "Room sale is served by no process"),
        (("bullmq", "jobs", "mail"), "welcome"),
        (("routing", "stats"), "waiting"),
        (("files", "stats"), "jobqueue:completed"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
async def test_what_needs_no_extra_runs_without_any(
    bare: Bare, command: tuple[str, ...], said: str
) -> None:
    ended = bare(*command)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert said in ended.stdout


@pytest.mark.slow
async def test_the_demo_plays_but_for_its_last_scene(bare: Bare) -> None:
    ended = bare("demo")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Nothing was lost and nothing happened twice." in ended.stdout
    assert "With waystation[spark]" in ended.stdout


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("console", "console"),
        ("room", "api"),
        ("top", "top"),
        ("pipeline", "ask"),
        ("redrive", "ask"),
    ],
)
async def test_what_needs_an_extra_names_it(bare: Bare, command: str, extra: str) -> None:
    ended = bare(command)
    assert ended.returncode != 0
    assert f"waystation[{extra}]" in ended.stderr
