"""The page that compares the four APIs: every call on it exists."""

import importlib
import inspect
import re
from typing import Any

import pytest

from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
PRODUCTS = ("bullmq", "routing", "files", "waitingroom")
OWNERS = {"queue": "Queue", "worker": "Worker", "room": "Room"}


def table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, as cells."""
    part = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def cells() -> list[tuple[str, str]]:
    """Each product with the code in one of its cells."""
    rows = [row for heading in ("Queues and rooms", "Workers") for row in table(heading)]
    return [
        (product, code)
        for row in rows
        if len(row) > 3
        for product, cell in zip(PRODUCTS, row[1:5], strict=False)
        for code in re.findall(r"`([^`]+)`", cell)
    ]


def has(kind: Any, name: str) -> bool:
    """Whether a class has an attribute, or sets it when it is made."""
    return hasattr(kind, name) or f"self.{name} = " in inspect.getsource(kind)


@pytest.mark.parametrize(("product", "code"), cells())
def test_what_a_cell_says_can_be_called(product: str, code: str) -> None:
    package = importlib.import_module(f"waystation.{product}")
    code = code.removeprefix("async with ")
    if made := re.fullmatch(r"([A-Z]\w+)\(([\w, …]*)\)(?:\.(\w+)\(\))?", code):
        kind = getattr(package, made[1])
        if made[3]:
            assert has(kind, made[3])
        elif "…" not in made[2]:
            taken = list(inspect.signature(kind).parameters)
            assert taken[: made[2].count(",") + 1] == made[2].split(", ")
    else:
        owner, name = re.match(r"(\w+)\.(\w+)", code).groups()  # pyright: ignore[reportOptionalMemberAccess]
        assert has(getattr(package, OWNERS[owner]), name)


@pytest.mark.parametrize("product", PRODUCTS[:3])
def test_workers_have_the_keywords_that_all_have(product: str) -> None:
    package = importlib.import_module(f"waystation.{product}")
    taken = {
        *package.WorkerOptions.__struct_fields__,
        *inspect.signature(package.Worker).parameters,
    }
    shared = re.findall(r"^\| `(\w+)` \| [^|]+ \| ", PAGE.split("## Workers")[1], re.MULTILINE)
    assert len(shared) == 6
    assert set(shared) <= taken
