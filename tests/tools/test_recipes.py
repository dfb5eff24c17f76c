"""The recipe for an option of a job, followed in a copy of the tree, and with a step forgotten."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.project import ROOT

# A minute of processor: every step is a run of its own.
pytestmark = pytest.mark.long

OPTIONS = "src/waystation/bullmq/options.py"
VALUES = "tests/laws/test_keywords.py"
KEYWORDS = "src/waystation/bullmq/keywords.py"
REFERENCE = "docs/reference/python.md"
COPIED = ("src", "tests", "tools", "docs", "pyproject.toml")


class Step(NamedTuple):
    """One step of the recipe: the text before and after it, and the test that misses it."""

    file: str
    before: str
    after: str
    missed_by: str


FIELD = "    attempts: int = 3\n"
CHECK = '        at_least("attempts", self.attempts, 1)\n'
STORED = '        "lifo": options.lifo or None,\n'
VALUE = '    "attempts": 7,\n'
STEPS: Mapping[str, Step] = {
    "the sentence": Step(
        OPTIONS,
        FIELD,
        '    courtesy: int = 0\n    """How politely the job is done."""\n' + FIELD,
        "tests/architecture/test_public.py",
    ),
    "the check": Step(
        OPTIONS,
        CHECK,
        CHECK + '        at_least("courtesy", self.courtesy, 0)\n',
        "tests/bullmq/test_options.py",
    ),
    "the line that stores it": Step(
        OPTIONS,
        STORED,
        STORED + '        "courtesy": options.courtesy or None,\n',
        VALUES,
    ),
    "the value for the law": Step(VALUES, VALUE, VALUE + '    "courtesy": 2,\n', VALUES),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which every step was done."""
    home = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        here = ROOT / name
        (shutil.copytree if here.is_dir() else shutil.copy)(here, home / name)
    for name in ("Makefile", "deploy", "examples", "requirements"):
        (home / name).symlink_to(ROOT / name)
    for step in STEPS.values():
        _edit(home / step.file, step.before, step.after)
    made = _run(home, "-m", "tools.pages")
    assert made.returncode == 0, made.stdout + made.stderr
    return home


def _edit(file: Path, before: str, after: str) -> str:
    text = file.read_text()
    assert text.count(before) == 1, f"{file.name} has not one {before!r}"
    file.write_text(text.replace(before, after))
    return text


def _run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{home / 'src'}:{home}"}
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=home, env=env, capture_output=True, text=True, check=False, timeout=240
    )


def _tests(home: Path, *files: str) -> subprocess.CompletedProcess[str]:
    return _run(home, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files)


def test_who_follows_the_recipe_sees_green(copy: Path) -> None:
    for file in (KEYWORDS, REFERENCE):
        assert "courtesy" in (copy / file).read_text()
    done = _tests(copy, *dict.fromkeys(step.missed_by for step in STEPS.values()))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("forgotten", STEPS)
def test_a_step_that_is_forgotten_is_red(copy: Path, forgotten: str) -> None:
    step = STEPS[forgotten]
    less = re.sub(r' *"""How.*?"""\n', "", step.after)
    whole = _edit(copy / step.file, step.after, less if less != step.after else step.before)
    done = _tests(copy, step.missed_by)
    (copy / step.file).write_text(whole)
    assert done.returncode == 1, done.stdout
    assert "courtesy" in done.stdout


def test_who_forgets_to_generate_the_keyword_sees_red(copy: Path) -> None:
    whole = (copy / KEYWORDS).read_text()
    (copy / KEYWORDS).write_text((ROOT / KEYWORDS).read_text())
    done = _tests(copy, VALUES)
    (copy / KEYWORDS).write_text(whole)
    assert done.returncode == 1, done.stdout


def test_who_forgets_to_generate_the_reference_sees_red(copy: Path) -> None:
    whole = (copy / REFERENCE).read_text()
    (copy / REFERENCE).write_text((ROOT / REFERENCE).read_text())
    # What `test_generated_pages_are_what_the_code_says` asks.
    done = _run(copy, "-m", "tools.pages", "--check")
    (copy / REFERENCE).write_text(whole)
    assert (done.returncode, done.stdout) == (1, f"{REFERENCE}\n"), done.stderr
