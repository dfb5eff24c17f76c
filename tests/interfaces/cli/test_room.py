"""`waystation room`, run in this process: what it prints and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from waystation.interfaces.cli.root import run


class Ended(NamedTuple):
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int


Command = Callable[..., Ended]


@pytest.fixture
def room(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.chdir(tmp_path)

    def command(*args: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            run(["room", *args])
        printed = capsys.readouterr()
        return Ended(printed.out, printed.err, int(ended.value.code or 0))

    return command


def test_a_room_is_opened_looked_at_and_steered(room: Command) -> None:
    assert room("open", "{sale}", "--rate", "5", "--seats", "20").out == (
        "{sale} is open, version 1\n"
    )
    assert room("pause", "{sale}").out == "paused\n"
    assert room("rate", "{sale}", "7").out == "7 per second\n"
    assert room("tell", "{sale}", "Back at noon").code == 0
    seen = json.loads(room("status", "{sale}", "--json").out)
    assert (seen["status"], seen["rate"], seen["seats"]) == ("paused, open", 7.0, 20)
    assert "waiting            0" in room("status", "{sale}").out


def test_a_room_that_nobody_opened_is_not_found(room: Command) -> None:
    ended = room("status", "{nowhere}")
    assert ended.code != 0
    assert "there is no room {nowhere}" in ended.err


def test_a_draw_is_made_written_down_and_checked(room: Command, tmp_path: Path) -> None:
    room("open", "{sale}")
    assert "commitment" in room("schedule", "{sale}", "2030-01-01T10:00:00", "--by-lot").out
    assert room("draw", "{sale}", "--beacon", "b").out == "0 drawn\n"
    assert room("proof", "{sale}", "proof.json").out == "0 ids in proof.json\n"
    assert room("check", "proof.json").out == "0 drawn as the seed says\n"
    kept = json.loads((tmp_path / "proof.json").read_text())
    kept["proof"]["seed"] = "00" * 32
    (tmp_path / "proof.json").write_text(json.dumps(kept))
    assert "committed" in room("check", "proof.json").err


def test_a_crowd_of_numbers_judges_the_room(room: Command) -> None:
    ended = room("simulate", "--visitors", "400", "--hours", "0.1")
    assert "people overtaken in the premium lane" in ended.out
    assert "✗ broken promises" not in ended.out
