"""Every statement of the document, and every fault found in it, has a test that names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PLACES = ("routing/test_*.py", "laws/test_*.py", "chaos/test_routing*.py")
COUNTS = {"B-": 68, "F-B": 21}
_MENTION = re.compile(r"(?<![A-Z\d-])(F-B|B-)(\d+)")


def docstrings() -> Iterator[str]:
    for place in PLACES:
        for file in TESTS.glob(place):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if is_test and node.name.startswith("test_"):
                    yield ast.get_docstring(node) or ""


@pytest.mark.parametrize("kind", COUNTS)
def test_every_number_is_named_by_a_test(kind: str) -> None:
    named = {
        (found[1], int(found[2])) for text in docstrings() for found in _MENTION.finditer(text)
    }
    missing = [f"{kind}{n}" for n in range(1, COUNTS[kind] + 1) if (kind, n) not in named]
    assert missing == []
