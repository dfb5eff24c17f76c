"""Every statement of the spec, and every fault found in it, has a test that names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
FOLDERS = ("queues/bullmq", "wire", "laws", "chaos")
COUNTS = {"P": 54, "D": 49, "F-P": 18, "F-D": 10}
_MENTION = re.compile(r"(?<![A-Z\d-])(F-[PD]|[PD]-)(\d+)")


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
    missing = [f"{kind}{n}" for n in range(1, COUNTS[kind] + 1) if (kind, n) not in named]
    assert missing == []
