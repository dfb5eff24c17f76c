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
    texts = (
        text
        for source in _sources(folders)
        if mention.search(source)
        for text in _docstrings(source)
    )
    named = {int(found[1]) for text in texts for found in mention.finditer(text)}
    return sorted(set(range(1, count + 1)) - named)


def _sources(folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for file in (ROOT / "tests" / folder).rglob("test_*.py"):
            yield file.read_text(encoding="utf-8")


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_test and node.name.startswith("test_"):
            yield ast.get_docstring(node) or ""
