"""The project's own files: metadata, workflows and changelog agree with each other."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.test_readme import targets
from tests.support.project import ROOT, tracked
from tools import bootstrap
from waystation import __version__

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = tracked(".github/workflows/*.yml")
FORMS = tracked(".github/ISSUE_TEMPLATE/*.yml")
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def pythons() -> list[str]:
    """The versions that the package says it is for."""
    named = " ".join(PROJECT["classifiers"])
    return re.findall(r"Python :: (3\.\d+)", named)


def workflow(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())


def test_every_python_that_is_named_is_tried() -> None:
    jobs = workflow("ci.yml")["jobs"]
    for job in ("test", "servers"):
        assert jobs[job]["strategy"]["matrix"]["python"] == pythons()
    assert PROJECT["requires-python"] == f">={pythons()[0]}"


def test_the_servers_that_are_named_are_tried() -> None:
    servers = workflow("ci.yml")["jobs"]["servers"]["strategy"]["matrix"]["server"]
    assert servers == ["redis:7", "redis:8", "valkey/valkey:8", "valkey/valkey:9"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_run_commands_that_exist(file: Path) -> None:
    text = file.read_text()
    assert set(re.findall(r"run: make (\w+)", text)) <= targets()
    assert set(re.findall(r"tools\.bootstrap (\w+)", text)) <= bootstrap.SETS.keys()
    for module in re.findall(r"python -m ((?:tools|tests)[\w.]*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


@pytest.mark.parametrize("file", [*WORKFLOWS, *FORMS], ids=lambda file: file.name)
def test_what_the_forge_reads_is_yaml(file: Path) -> None:
    assert yaml.safe_load(file.read_text())


def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= SECTIONS
    for version in text.split("\n## ")[1:]:
        named = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert len(named) == len(set(named)), f"a section comes twice in {version.splitlines()[0]}"
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert __version__ in released or not released, "the newest version is not in the changelog"
