"""The drill finds handlers that are not idempotent, and no others."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.handlers import good, planted

ROOT = Path(__file__).parents[2]


def drilled(module: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = ["drill", module, *options]
    program = f"from waystation.cli.root import run; run({command!r})"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )


def verdicts(text: str) -> dict[str, bool]:
    """Whether each handler is idempotent."""
    lines = re.findall(r"^(\w+) +(NOT )?idempotent ", text, re.MULTILINE)
    return {name: not negation for name, negation in lines}


@pytest.mark.long
def test_it_finds_each_of_ten_planted_handlers() -> None:
    ended = drilled("tests.testing.handlers.planted")
    assert verdicts(ended.stdout) == {each.title: False for each in planted.drills}, ended
    assert ended.returncode == 1


@pytest.mark.long
def test_it_finds_none_among_ten_good_handlers() -> None:
    ended = drilled("tests.testing.handlers.good")
    assert verdicts(ended.stdout) == {each.title: True for each in good.drills}, ended
    assert ended.returncode == 0


@pytest.mark.slow
def test_it_names_the_fault_and_what_it_did() -> None:
    ended = drilled("tests.testing.handlers.planted", "--only", "check_then_act")
    assert ended.returncode == 1, ended
    assert "check_then_act  NOT idempotent" in ended.stdout
    [line] = re.findall(r"killed before planted\.py:(\d+): \w+[^:]*: wanted", ended.stdout)
    source = Path(planted.__file__).read_text().splitlines()
    assert "touch()" in source[int(line) - 1]
    assert ended.stdout.endswith("1 of 1 are not idempotent\n")


def test_a_title_that_no_drill_has_is_refused() -> None:
    ended = drilled("tests.testing.handlers.good", "--only", "write_hole_file")
    assert ended.returncode == 2, ended
    assert "has no drill with the title 'write_hole_file'; it has " in ended.stderr
    assert "'write_whole_file'" in ended.stderr


def test_a_good_handler_passes() -> None:
    ended = drilled("tests.testing.handlers.good", "--only", "write_whole_file")
    assert verdicts(ended.stdout) == {"write_whole_file": True}, ended
    assert ended.stdout.endswith("0 of 1 are not idempotent\n")
    assert ended.returncode == 0


@pytest.mark.slow
def test_a_task_runs_with_its_arguments_and_what_it_depends_on() -> None:
    ended = drilled("tests.testing.handlers.typed")
    assert verdicts(ended.stdout) == {"append": False, "write": True, "charge": True}, ended
    assert "append  NOT idempotent" in ended.stdout
    assert ": file log: wanted '2026-11-16', found '2026-11-162026-11-16'" in ended.stdout


@pytest.mark.slow
def test_what_does_not_complete_undisturbed_is_not_called_idempotent() -> None:
    ended = drilled("tests.testing.handlers.broken")
    assert "forgetful  DOES NOT COMPLETE  (1 run)\n    undisturbed: " in ended.stdout, ended
    assert "state: wanted 'completed', found 'failed'" in ended.stdout
    assert "KeyError: 'amount'" in ended.stdout
    assert "patient    DOES NOT COMPLETE" in ended.stdout
    assert ended.stdout.endswith(
        "0 of 2 are not idempotent, 2 could not be judged: not completed undisturbed\n"
    )
    assert ended.returncode == 1


def test_a_module_without_drills_is_refused() -> None:
    ended = drilled("tests.testing.handlers")
    assert ended.returncode != 0
    assert "must have a list of Drill called `drills`, got None" in ended.stderr
