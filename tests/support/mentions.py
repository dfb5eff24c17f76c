"""Which numbered statements the tests name in their docstrings, such as `P-14` or `F-T3`."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.support.project import ROOT


@cache
def missing(kind: str, count: int, *folders: str) -> list[int]:
    """The numbers up to `count` that no test below these folders of tests/ names."""
    mention = re.compile(rf"(?<![A-Za-z\d-]){kind}(\d+)\b")
    named = {int(found[1]) for text in _docstrings(folders) for found in mention.finditer(text)}
    return sorted(set(range(1, count + 1)) - named)


def _docstrings(folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for file in (ROOT / "tests" / folder).rglob("test_*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if is_test and node.name.startswith("test_"):
                    yield ast.get_docstring(node) or ""
