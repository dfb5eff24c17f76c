"""The quick checkers of `make check`; the types of everything take minutes, and `make long`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT

TOOLS = Path(sys.executable).parent


@pytest.mark.timeout(1800)  # pyright takes two minutes, and ten times that beside others
@pytest.mark.parametrize(
    "command",
    [
        "ruff check --quiet",
        "ruff format --check --quiet",
        "lint-imports",
        pytest.param("pyright", marks=pytest.mark.long),
    ],
)
def test_the_checker_has_nothing_to_say(command: str) -> None:
    program, *options = command.split()
    environment = os.environ | {"NO_COLOR": "1", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [TOOLS / program, *options], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_make_check_runs_the_same_checkers() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.split("\ncheck:")[1].split("\n\n")[0]
    for command in ("ruff check", "ruff format --check", "pyright", "lint-imports"):
        assert f".venv/bin/{command}" in recipe
