"""When the project's folder counts as ready, and what is said when it cannot be made so."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT
from tools import bootstrap
from tools.step import Unready


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with requirements, and an environment that was made for the tests."""
    (tmp_path / "requirements").mkdir()
    for name in ("requirements/demo.txt", "requirements/test.txt", "pyproject.toml"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    settle_in(tmp_path, monkeypatch)
    bootstrap._stamp("test")  # pyright: ignore[reportPrivateUsage]
    return tmp_path


def settle_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", folder)
    monkeypatch.setattr(bootstrap, "VENV", folder / ".venv")
    monkeypatch.setattr(bootstrap, "TOOLS", folder / ".tools")


@pytest.mark.usefixtures("folder")
def test_what_serves_the_tests_serves_the_demo() -> None:
    assert bootstrap.is_ready("test")
    assert bootstrap.is_ready("demo")


@pytest.mark.usefixtures("folder")
def test_what_serves_the_demo_does_not_serve_the_tests() -> None:
    bootstrap._stamp("demo")  # pyright: ignore[reportPrivateUsage]
    assert bootstrap.is_ready("demo")
    assert not bootstrap.is_ready("test")


@pytest.mark.parametrize("name", ["requirements/test.txt", "pyproject.toml"])
def test_a_changed_requirement_is_noticed(folder: Path, name: str) -> None:
    (folder / name).write_text("something else")
    assert not bootstrap.is_ready("test")


def test_an_environment_does_not_survive_a_move(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = folder.rename(folder.with_name("moved"))
    settle_in(moved, monkeypatch)
    assert not bootstrap.is_ready("test")


def test_without_pip_and_venv_the_error_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = folder / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    (folder / "requirements" / "uv.txt").write_text("uv")
    (folder / "pyproject.toml").write_text("changed")
    with pytest.raises(Unready, match=r"neither pip nor venv; .*`apt install python3-venv`"):
        bootstrap.make_ready("test")


def test_a_wrong_word_is_an_error_of_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.bootstrap", "lunch"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "waystation is not ready: wanted one of demo, test, bench, got 'lunch'\n"
