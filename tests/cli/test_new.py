"""`waystation new`: the project that it writes runs, and nothing of anybody's is overwritten."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.patience import LIMIT_S
from tests.support.processes import running


def python(place: Path, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}
    return subprocess.run(
        [sys.executable, *words],
        cwd=place,
        env=clean | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


@pytest.fixture
def new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys, "new")


def listing(place: Path) -> list[str]:
    return sorted(str(each.relative_to(place)) for each in place.rglob("*"))


@pytest.fixture
def project(tmp_path: Path, new: Command) -> Path:
    assert new("My-Shop").returncode == 0
    return tmp_path / "My-Shop"


def test_it_writes_a_project_and_says_how_to_run_it(tmp_path: Path, new: Command) -> None:
    done = new("my-shop", "--compose")
    assert listing(tmp_path) == [
        "my-shop",
        "my-shop/.gitignore",
        "my-shop/README.md",
        "my-shop/compose.yaml",
        "my-shop/my_shop",
        "my-shop/my_shop/__init__.py",
        "my-shop/my_shop/add.py",
        "my-shop/my_shop/tasks.py",
        "my-shop/pyproject.toml",
        "my-shop/tests",
        "my-shop/tests/test_tasks.py",
    ]
    assert "waystation tasks work my_shop.tasks:tasks --reload" in done.stdout
    described = tomllib.loads((tmp_path / "my-shop/pyproject.toml").read_text())
    assert described["project"]["name"] == "my-shop"
    assert "docker compose up" in (tmp_path / "my-shop/README.md").read_text()


async def test_its_worker_does_what_its_program_adds(project: Path, redis_url: str) -> None:
    work = ("-m", "waystation", "tasks", "work", "my_shop.tasks:tasks")
    with running(project, *work, WAYSTATION_STORE__URL=redis_url) as worker:
        added = python(
            project, "-m", "my_shop.add", "ada@example.org", WAYSTATION_STORE__URL=redis_url
        )
        assert added.stdout.endswith("waiting for a worker\nwelcomed ada@example.org\n"), added
        assert await worker.stop() == 0


@pytest.mark.slow
def test_its_tests_pass(project: Path) -> None:
    tested = python(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout


def test_nothing_that_is_there_is_touched(tmp_path: Path, new: Command) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine, too")
    before = listing(tmp_path)
    for name in ("shop", "file"):
        refused = new(name)
        assert refused.returncode != 0
        assert f"{name} is there already, and is left as it is" in refused.stderr
    assert listing(tmp_path) == before
    assert (tmp_path / "file").read_text() == "mine, too"


def test_an_empty_directory_may_be_there(tmp_path: Path, new: Command) -> None:
    (tmp_path / "shop").mkdir()
    assert new("shop").returncode == 0
    assert (tmp_path / "shop/shop/tasks.py").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("7up", "letters, digits and dashes"),
        ("class", "letters, digits and dashes"),
        ("my shop", "letters, digits and dashes"),
        ("json", "json is the name of another package"),
        ("waystation", "waystation is the name of another package"),
        ("no/such/shop", "there is no directory no/such"),
    ],
)
def test_a_name_that_cannot_be_a_package_is_refused(
    tmp_path: Path, new: Command, name: str, sentence: str
) -> None:
    refused = new(name)
    assert refused.returncode != 0
    assert sentence in refused.stderr
    assert listing(tmp_path) == []
