"""The first things that a newcomer meets: README, Makefile, links between pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT, tracked
from tools import pages

README = (ROOT / "README.md").read_text()
COMMANDS = ("demo", "test")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def targets() -> set[str]:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(re.findall(r"^ +make (\w+)", said.stdout, re.MULTILINE))


def test_make_alone_says_what_it_can_do() -> None:
    assert targets() >= {"demo", "test", "check", "bench", "docs", "clean"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_screen_shows_the_command_and_make_knows_it(command: str) -> None:
    first_screen = "\n".join(README.splitlines()[:45])
    assert f"make {command}" in first_screen
    assert command in targets()


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len(README.splitlines()) <= 150


def test_the_readmes_program_prints_what_it_says(tmp_path: Path) -> None:
    program, printed = re.findall(r"```python\n(.*?)```.*?```\n(.*?)```", README, re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == printed, done.stderr


def test_every_make_command_in_the_pages_exists() -> None:
    named = {
        command
        for file in tracked("*.md")
        for command in re.findall(r"`make (\w+)|^make (\w+)", file.read_text(), re.MULTILINE)
    }
    assert {one or other for one, other in named} <= targets()


def test_a_build_runs_the_readmes_test_commands() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line.strip() for line in lines if "make " in line and line[:1] != "#"]
    checked, tested, *again = commands
    assert (checked, tested) == ("make check || exit", "make $tests && continue")
    assert "for tests in test slow; do" in lines
    # What was red runs once more, and nothing else does.
    assert [command.split('"')[1].split()[0] for command in again] == ["--last-failed"]


@pytest.mark.parametrize("file", tracked("*.md"), ids=lambda file: str(file.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(file: Path) -> None:
    links = [link for link in LINK.findall(file.read_text()) if "://" not in link]
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_every_picture_is_shown_on_some_page() -> None:
    pages_with_pictures = "".join(file.read_text() for file in tracked("*.md"))
    assert [p.name for p in tracked("docs/pictures") if p.name not in pages_with_pictures] == []


def test_generated_pages_are_what_the_code_says() -> None:
    assert pages.stale() == [], "`make docs` writes them anew"
