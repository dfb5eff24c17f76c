"""`waystation routing`, run in this process: what it prints and how it ends."""

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


Routing = Callable[..., Ended]


@pytest.fixture
def routing(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Routing:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.chdir(tmp_path)

    def command(*args: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            run(["routing", *args])
        printed = capsys.readouterr()
        return Ended(printed.out, printed.err, int(ended.value.code or 0))

    return command


def test_a_job_nobody_can_serve_is_reported_with_what_is_missing(routing: Routing) -> None:
    put = routing("dispatch", "resize", '{"a": 1}', "--capability", "gpu")
    assert put.code == 0

    found = routing("coverage")

    assert found.code == 1
    assert "1  resize  missing: no worker is alive" in found.out
    assert put.out.strip() in found.out


def test_what_is_where_can_be_seen_and_changed(routing: Routing) -> None:
    id = routing("dispatch", "email").out.strip()

    assert json.loads(routing("stats", "--json").out)["waiting"] == 1
    assert routing("pause", "email").out == "paused\n"
    assert routing("limit", "email", "--concurrent", "2").out == "limited\n"
    shown = json.loads(routing("show", id).out)
    assert (shown["status"], shown["job"]["type"]) == ("waiting", "email")
    assert routing("cancel", id).out == "1 stopped\n"
    assert routing("coverage").out == "everything that waits can be served\n"
    assert "paused    email" in routing("stats").out
    assert routing("resume", "email").out == "resumed\n"
    assert routing("dead").out == ""
    assert routing("requeue").out == "0 back in line\n"
    assert routing("purge", "--yes").out == "0 removed\n"
    assert routing("workers").out == ""


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("dispatch", "t", "--cron", "often"), 'Invalid cron expression "often": '),
        (("dispatch", "t", "{"), "the payload must be JSON"),
        (("dispatch", "t", "--priority", "11"), "priority must be 1 to 10, got 11"),
        (("limit", "t", "--concurrent", "0"), "max_concurrent must be at least 1, got 0"),
        (("script", "steal_job"), "wanted one of claim_job"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    routing: Routing, args: tuple[str, ...], sentence: str
) -> None:
    refused = routing(*args)

    assert refused.code == 2
    assert sentence in refused.err
    assert len(refused.err.splitlines()) == 1


def test_scripts_are_printed_ready_to_load(routing: Routing) -> None:
    assert "local waiting = KEYS[1]" in routing("script", "claim_job").out
