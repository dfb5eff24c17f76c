"""Every statement of the spec, and every fault found in it, has a test that names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
FOLDERS = ("queues/waitingroom", "interfaces/api", "browser")
COUNTS = {"W": 36, "F-W": 21, "F": 39}
OVER_HTTP = {"F": {28, 30, 32, 33, 34, 35, 36}}
"""Faults of the pages and the API, which are shown there."""
_MENTION = re.compile(r"(?<![A-Za-z\d-])(F-W|W-|F)(\d+)\b")


def docstrings() -> Iterator[str]:
    for folder in FOLDERS:
        for file in (TESTS / folder).rglob("test_*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if is_test and node.name.startswith("test_"):
                    yield ast.get_docstring(node) or ""


@pytest.mark.parametrize("kind", COUNTS)
def test_every_number_is_named_by_a_test(kind: str) -> None:
    named = {
        (found[1].rstrip("-"), int(found[2]))
        for text in docstrings()
        for found in _MENTION.finditer(text)
    }
    elsewhere = OVER_HTTP.get(kind, set())
    wanted = set(range(1, COUNTS[kind] + 1)) - elsewhere
    assert [f"{kind}{n}" for n in sorted(wanted) if (kind, n) not in named] == []
