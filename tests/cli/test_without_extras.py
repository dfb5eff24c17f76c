"""Commands of an installation without extras."""

from pathlib import Path

import pytest

from tests.cli.conftest import Finished, Waystation
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


@pytest.fixture
async def bare(waystation: Waystation, redis_url: str, tmp_path: Path) -> Waystation:
    """The command where no extra is installed, on a store with a queue and a room."""
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    async with Queue("mail", redis_url) as queue:
        await queue.add("welcome", {})
    async with Room("sale", redis_url) as room:
        await room.open(RoomOptions())

    def run(*args: str) -> Finished:
        return waystation(*args, PYTHONPATH=str(tmp_path), WAYSTATION_STORE__URL=redis_url)

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
    bare: Waystation, command: tuple[str, ...], said: str
) -> None:
    ended = bare(*command)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert said in ended.stdout


@pytest.mark.parametrize(
    ("command", "extra"),
    [("console", "api"), ("room", "api"), ("top", "top"), ("pipeline", "ask"), ("redrive", "ask")],
)
async def test_what_needs_an_extra_names_it(bare: Waystation, command: str, extra: str) -> None:
    ended = bare(command)
    assert ended.returncode != 0
    assert f"waystation[{extra}]" in ended.stderr
